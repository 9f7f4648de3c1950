// Everything by which ranks come to share memory: connect() gives an Exchange, with which PeerMemory and
// PeerView are made.
#pragma once

#include "pk/bootstrap/connect.hpp"
#include "pk/bootstrap/peer_memory.hpp"
#include "pk/bootstrap/peer_view.hpp"
#include "pk/bootstrap/probe.hpp"
