"""Tokenizers and chat templates from GGUF metadata and from Hugging Face files."""

import json
import os
from pathlib import Path

import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer as HfTokenizer
from tokenizers import decoders, models, pre_tokenizers

from kgen.weights.checkpoint import WeightsError
from kgen.weights.tokenizer import Tokenizer, load_tokenizer

REFERENCE = json.loads(Path(__file__).with_name("tokenizer_reference.json").read_text())
SMOLLM2 = Path(__file__).parents[2] / ".cache/smollm2" / REFERENCE["model"]


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    file = Path(os.environ.get("KGEN_SMOLLM2_GGUF", SMOLLM2))
    if not file.is_file():
        pytest.skip(f"{file} is not there; make weights fetches it")
    return load_tokenizer(file)


def test_ids_of_the_reference_strings(smollm2):
    got = [[text, smollm2.encode(text)] for text, _ in REFERENCE["strings"]]
    assert got == REFERENCE["strings"]


def test_decoding_gives_the_text_back(smollm2):
    texts = [text for text, _ in REFERENCE["strings"] if "<|" not in text and "_name>" not in text]
    assert [smollm2.decode(smollm2.encode(text)) for text in texts] == texts


def test_streamed_pieces_join_to_the_text_and_never_split_a_character(smollm2):
    for text, ids in REFERENCE["strings"]:
        stream = smollm2.stream()
        pieces = [stream.push(i) for i in ids]
        assert "".join(pieces) + stream.finish() == smollm2.decode(ids), text
        assert not any("�" in piece for piece in pieces), text


def test_a_stream_that_ends_inside_a_character_says_so(smollm2):
    stream = smollm2.stream()
    ids = smollm2.encode("ok 🤖")
    assert "".join(stream.push(i) for i in ids[:-1]) == "ok"
    assert stream.finish() == " �"


def test_chat_template(smollm2):
    for chat in REFERENCE["chats"]:
        assert smollm2.encode_chat(chat["messages"]) == chat["ids"]
    assert smollm2.stop_ids == (0, 2)  # <|endoftext|>, <|im_end|>


def test_a_saved_tokenizer_is_the_same(smollm2, tmp_path):
    file = tmp_path / "saved.json"
    file.write_text(smollm2.to_json())
    again = load_tokenizer(file)
    assert [again.encode(text) for text, _ in REFERENCE["strings"]] == [
        ids for _, ids in REFERENCE["strings"]
    ]
    assert (again.stop_ids, again.bos_token, again.eos_token, again.chat_template) == (
        smollm2.stop_ids,
        smollm2.bos_token,
        smollm2.eos_token,
        smollm2.chat_template,
    )


ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
EXTRA = ["he", "llo", "12", "34", "<bos>", "<|im_end|>"]
MERGES = ["h e", "l l", "ll o", "1 2", "3 4"]


def write_tokenizer_gguf(
    path: Path, *, pre: str = "gpt-2", model: str = "gpt2", template: str = "", bos: bool = False
):
    tokens = [*ALPHABET, "ll", *EXTRA]
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in ("<bos>", "<|im_end|>") else 1 for t in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(tokens.index("<bos>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(bos)
    if template:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return tokens


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["he", "llo", "Ġ", "12", "34"]),
        ("smollm", ["he", "llo", "Ġ", "1", "2", "3", "4"]),
        ("qwen2", ["he", "llo", "Ġ", "1", "2", "3", "4"]),
        ("llama-bpe", ["he", "llo", "Ġ", "12", "3", "4"]),
    ],
)
def test_pre_tokenizers_cut_digits_differently(tmp_path, pre, pieces):
    tokens = write_tokenizer_gguf(tmp_path / "t.gguf", pre=pre)
    ids = load_tokenizer(tmp_path / "t.gguf").encode("hello 1234")
    assert [tokens[i] for i in ids] == pieces


def test_beginning_of_text_is_added_where_the_model_wants_it(tmp_path):
    tokens = write_tokenizer_gguf(
        tmp_path / "t.gguf", bos=True, template="{{ bos_token }}{{ messages[0].content }}"
    )
    tokenizer = load_tokenizer(tmp_path / "t.gguf")
    expected = [tokens.index(t) for t in ("<bos>", "he", "llo")]
    assert tokenizer.encode("hello") == expected
    assert tokenizer.encode_chat([{"role": "user", "content": "hello"}]) == expected
    assert tokenizer.decode(expected) == "hello"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "llama"}, "tokenizer 'llama' is not 'gpt2'"),
        ({"pre": "weird"}, "pre-tokenizer 'weird' is not one of"),
    ],
)
def test_tokenizers_that_are_not_supported(tmp_path, options, message):
    write_tokenizer_gguf(tmp_path / "t.gguf", **options)
    with pytest.raises(WeightsError, match=message):
        load_tokenizer(tmp_path / "t.gguf")


def test_chat_needs_a_template(tmp_path):
    write_tokenizer_gguf(tmp_path / "t.gguf")
    with pytest.raises(WeightsError, match="no chat template"):
        load_tokenizer(tmp_path / "t.gguf").encode_chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{% if %}", "does not accept"),
    ],
)
def test_templates_that_refuse_or_misbehave(tmp_path, template, message):
    write_tokenizer_gguf(tmp_path / "t.gguf", template=template)
    with pytest.raises(WeightsError, match=message):
        load_tokenizer(tmp_path / "t.gguf").encode_chat([{"role": "user", "content": "hi"}])


def write_hugging_face(directory: Path, **config) -> list[str]:
    tokens = [*ALPHABET, "ll", *EXTRA]
    backend = HfTokenizer(
        models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split()) for m in MERGES])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<bos>", "<|im_end|>"])
    backend.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return tokens


def test_hugging_face_directory(tmp_path):
    template = "{{ bos_token }}{% for m in messages %}\n  {{ m.content | tojson }}\n{% endfor %}"
    tokens = write_hugging_face(
        tmp_path, bos_token={"content": "<bos>"}, eos_token="<|im_end|>", chat_template=template
    )
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7]}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    tokenizer = load_tokenizer(tmp_path / "model.safetensors")
    assert tokenizer.stop_ids == tuple(sorted([7, tokens.index("<|im_end|>")]))
    ids = tokenizer.encode_chat([{"role": "user", "content": "<é>"}])
    # transformers strips a block's own line and indentation.
    assert tokenizer.backend.decode(ids, skip_special_tokens=False) == '<bos>  "<é>"\n'
    (tmp_path / "chat_template.jinja").write_text("hello")
    assert [tokens[i] for i in load_tokenizer(tmp_path).encode_chat([])] == ["he", "llo"]


def test_paths_without_a_tokenizer(tmp_path):
    with pytest.raises(WeightsError, match=r"no tokenizer\.json and no \.gguf"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(WeightsError, match=r"not a tokenizer\.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(WeightsError, match="cannot be read"):
        load_tokenizer(tmp_path / "absent.json")
