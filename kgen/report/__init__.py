"""What a compilation did, for people."""
