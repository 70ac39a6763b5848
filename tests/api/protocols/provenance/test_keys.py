"""The key file of provenance: made, rotated, read, followed; vectors of RFC 8037 and RFC 9421."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import KeySet, OKPKey

from aidre.api.protocols.provenance import keys
from aidre.api.protocols.provenance.keys import (
    MARGIN_SECONDS,
    MAX_LIFETIME_SECONDS,
    KeyRing,
    make_key,
    make_signer,
    parse_keys,
    read_keys,
    thumbprint,
)
from aidre.engine.errors import ConfigurationError
from tests.support.signatures import RFC9421_KEY

NOW = 1_790_000_000.0


def pem_of(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed).decode()


def ids(path: Path) -> list[str]:
    return [key.id for key in read_keys(path).published]


def test_a_new_file_is_for_its_owner_alone_and_opens_with_other_software(tmp_path: Path) -> None:
    path = tmp_path / "provenance.pem"
    made = make_key(path, NOW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert text.splitlines()[:2] == [f"provenance key {made.id}", "made 2026-09-21T14:13:20Z"]
    other = OKPKey.import_key(text[text.index("-----BEGIN") :])
    assert other.thumbprint() == made.id == read_keys(path).signing.public.id
    assert [path.name for path in tmp_path.iterdir()] == ["provenance.pem"]


def test_the_thumbprint_is_that_of_rfc_8037_a_3() -> None:
    assert thumbprint("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo") == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_of_other_software_is_read(tmp_path: Path) -> None:
    for text in (RFC9421_KEY, RFC9421_KEY.replace("\n", "\r\n"), f"Bag Attributes\n  name: x\n{RFC9421_KEY}"):
        found = parse_keys(text.encode(), tmp_path)
        assert [key.id for key in found.published] == ["poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"]
        assert found.signing.public.x == "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"


def test_rotation_signs_with_the_newest_and_keeps_only_the_public_half_of_the_former(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    first, second, third = (make_key(path, NOW + 100 * number) for number in range(3))
    assert ids(path) == [third.id, second.id, first.id]
    assert read_keys(path).signing.public.id == third.id
    assert path.read_text().count("BEGIN PRIVATE KEY") == 1
    assert path.read_text().count("BEGIN PUBLIC KEY") == 2
    assert [key.retired for key in read_keys(path).published] == [None, NOW + 200, NOW + 100]
    published = KeySet.import_key_set(orjson.loads(read_keys(path).document()))
    assert [key.kid for key in published.keys] == [third.id, second.id, first.id]
    assert all(not key.is_private for key in published.keys)


def test_a_retired_key_stays_until_the_last_it_has_signed_has_run_out(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    first = make_key(path, NOW)
    second = make_key(path, NOW + 1)
    overlap = MAX_LIFETIME_SECONDS + MARGIN_SECONDS
    third = make_key(path, NOW + 1 + overlap)
    assert ids(path) == [third.id, second.id, first.id]
    fourth = make_key(path, NOW + 2 + overlap)
    assert ids(path) == [fourth.id, third.id, second.id]


def test_a_document_of_keys_has_no_private_member(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    make_key(path, NOW)
    made = make_key(path, NOW)
    [first, second] = orjson.loads(read_keys(path).document())["keys"]
    assert first == {"kty": "OKP", "crv": "Ed25519", "alg": "Ed25519", "use": "sig", "kid": made.id, "x": made.x}
    assert first.keys() == second.keys()


def test_files_with_several_private_keys_sign_with_the_last_one(tmp_path: Path) -> None:
    other = Ed25519PrivateKey.generate()
    found = parse_keys((pem_of(other) + RFC9421_KEY).encode(), tmp_path)
    assert found.signing.public.id == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert len(found.published) == 2


CURVE = pem_of(ec.generate_private_key(ec.SECP256R1()))
OTHER = pem_of(Ed25519PrivateKey.generate())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no private key"),
        (b"a secret of another kind\n", "no private key"),
        ("schlüssel".encode(), "not PEM"),
        (bytes(range(256)), "not PEM"),
        (CURVE.encode(), "not an Ed25519 key"),
        (pem_of(Ed25519PrivateKey.generate(), b"word").encode(), "ENCRYPTED PRIVATE KEY"),
        ((OTHER + RFC9421_KEY[:80]).encode(), "incomplete"),
        ((RFC9421_KEY[:60] + OTHER).encode(), "cannot be read"),
        (RFC9421_KEY.replace("MC4C", "MC5C").encode(), "cannot be read"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "cannot be read"),
        (b"\n" * (1 << 20) + RFC9421_KEY.encode(), "too large"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "CERTIFICATE"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "other.pem"
    path.write_bytes(content)
    for attempt in (lambda: read_keys(path), lambda: make_key(path, NOW)):
        with pytest.raises(ConfigurationError, match=reason) as raised:
            attempt()
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "AAAA" not in str(raised.value)
    assert path.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["other.pem"]


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path in (tmp_path, tmp_path / "gone" / "keys.pem", tmp_path / "circle"):
        with pytest.raises(ConfigurationError, match=str(path)):
            make_key(path, NOW)
    with pytest.raises(ConfigurationError, match="aidre keys new --provenance"):
        read_keys(tmp_path / "keys.pem")


def test_rotation_keeps_links_and_who_may_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    link = tmp_path / "link.pem"
    first = make_key(path, NOW)
    path.chmod(0o644)
    link.symlink_to(path)
    second = make_key(link, NOW)
    assert link.is_symlink()
    assert ids(path) == [second.id, first.id]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_new_keys_that_are_made_at_once_all_stay(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: make_key(path, NOW).id, range(8)))
    assert sorted(ids(path)) == sorted(made)


class Time:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    stand_in = Time()
    monkeypatch.setattr(keys, "time", stand_in)
    return stand_in


def test_a_server_publishes_a_new_key_at_once_and_signs_with_it_a_little_later(tmp_path: Path, clock: Time) -> None:
    path = tmp_path / "keys.pem"
    first = make_key(path, NOW)
    ring = KeyRing(path)
    ring.refresh()
    assert ring.signing.public.id == first.id
    second = make_key(path, NOW)
    ring.refresh()
    assert [key.id for key in ring.keys.published] == [second.id, first.id]
    assert ring.signing.public.id == first.id
    clock.now += keys.SETTLE_SECONDS
    ring.refresh()
    assert ring.signing.public.id == second.id


def test_a_key_that_is_taken_out_signs_nothing_more(tmp_path: Path, clock: Time) -> None:
    path = tmp_path / "keys.pem"
    make_key(path, NOW)
    ring = KeyRing(path)
    path.write_text(RFC9421_KEY)
    ring.refresh()
    assert ring.signing.public.id == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert len(ring.keys.published) == 1


def test_a_server_goes_on_with_its_keys_when_the_file_is_lost_or_damaged(
    tmp_path: Path, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.pem"
    first = make_key(path, NOW)
    ring = KeyRing(path)
    path.write_text("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw")
    for _ in range(3):
        ring.refresh()
    path.unlink()
    ring.refresh()
    assert ring.signing.public.id == first.id
    assert [record.message.count("the keys in force stay") for record in caplog.records] == [1, 1]
    assert "MC4CAQ" not in caplog.text
    second = make_key(path, NOW)
    ring.refresh()
    assert [key.id for key in ring.keys.published] == [second.id]
    assert ring.signing.public.id == second.id


def test_a_file_that_was_only_touched_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    make_key(path, NOW)
    ring = KeyRing(path)
    former = ring.signing
    path.write_bytes(path.read_bytes() + b"\n")
    ring.refresh()
    assert ring.signing is former
    assert ring.keys.signing is former


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, RFC9421_KEY.encode())
    os.close(write)
    ring = KeyRing(Path(f"/dev/fd/{read}"))
    os.close(read)
    ring.refresh()
    assert ring.signing.public.id == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


def test_a_file_that_everyone_can_read_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.pem"
    make_key(path, NOW)
    KeyRing(path)
    assert caplog.text == ""
    path.chmod(0o644)
    KeyRing(path)
    assert f"everyone on this machine can read the private key in {path}" in caplog.text


@pytest.mark.parametrize("length", [0, 1, 63, 64, 420, 100_000])
def test_libsodium_signs_as_openssl_does(length: int) -> None:
    """Ed25519 leaves nothing to chance (RFC 8032), so both libraries have to agree to the bit."""
    private, content = Ed25519PrivateKey.generate(), bytes(range(256)) * (length // 256 + 1)
    signed = make_signer(private)(content[:length])
    assert signed == private.sign(content[:length])
    assert len(signed) == 64


def test_a_key_that_is_not_the_one_whose_name_stands_above_it_was_altered(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    for moment in (NOW, NOW + 100):
        made = make_key(path, moment)
    whole = path.read_text()
    other = make_key(tmp_path / "other.pem", NOW).id
    for named in (made.id, read_keys(path).published[1].id):
        path.write_text(whole.replace(named, other))
        with pytest.raises(ConfigurationError, match="altered"):
            read_keys(path)
    bare = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("provenance key"))
    path.write_text(bare)  # one that another program made has no name
    assert read_keys(path).signing.public.id == made.id
