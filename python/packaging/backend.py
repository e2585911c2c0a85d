"""The build backend (PEP 517): maturin, with the C libraries and the interposers built before and put
beside the package.

Cargo builds the extension module and these libraries. `pip install . -C profile=dev` takes the
profile of that name instead of `release`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional

import maturin

ROOT = Path(__file__).resolve().parents[2]
#: Where the package looks for them first.
LIBRARIES = ROOT / "python" / "xsched" / "lib"
#: Where the package looks for scenarios, and the devices that they name.
DATA = ROOT / "python" / "xsched" / "data"
#: The libraries of the C interface, by the name of their cargo target.
C_INTERFACE = ("preempt", "halhip", "halcuda", "halhost")
#: What `python -m xsched run` preloads: launch/src/interposers.rs has the files' names.
INTERPOSERS = ("shimcuda", "shimhip")
#: The libraries by which HIP's interposer gets the names of its runtime.
NAMES_OF_HIP = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")
#: All that the wheel has.
NAMES = (*C_INTERFACE, *INTERPOSERS)

Settings = Optional[Mapping[str, Any]]

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Nothing but what `pyproject.toml` says."""
    return []


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """As maturin, which looks at no setting of ours."""
    return str(maturin.prepare_metadata_for_build_wheel(directory))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(
    directory: str, config_settings: Settings = None, metadata: Optional[str] = None
) -> str:
    """A wheel with the extension module, the C libraries and the interposers."""
    profile = _profile(config_settings)
    _build_libraries(profile)
    return str(maturin.build_wheel(directory, _arguments(profile), metadata))


def build_editable(
    directory: str, config_settings: Settings = None, metadata: Optional[str] = None
) -> str:
    """The same for `pip install -e`. The C libraries are those of now."""
    profile = _profile(config_settings)
    _build_libraries(profile)
    return str(maturin.build_editable(directory, _arguments(profile), metadata))


def build_sdist(directory: str, config_settings: Settings = None) -> str:
    """All files of the repository. (Maturin's would lack what only the C libraries need.)"""
    with tempfile.TemporaryDirectory() as scratch:
        info = Path(scratch) / prepare_metadata_for_build_wheel(scratch)
        metadata = (info / "METADATA").read_bytes()
        stem = info.name[: -len(".dist-info")]
    with tarfile.open(Path(directory) / f"{stem}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo(f"{stem}/PKG-INFO")
        entry.size = len(metadata)
        tar.addfile(entry, io.BytesIO(metadata))
        for name in _sources():
            tar.add(ROOT / name, f"{stem}/{name}", recursive=False)
    return f"{stem}.tar.gz"


def _profile(settings: Settings) -> str:
    return str((settings or {}).get("profile", "release"))


def _arguments(profile: str) -> dict[str, str]:
    return {"build-args": f"--profile {profile} --locked"}


def _sources() -> list[str]:
    """The files under version control or, in an unpacked archive, all."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        return [name for name in listed.stdout.decode().split("\0") if name]
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if "target" not in path.parts)


def _cargo(*arguments: str) -> str:
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def _build_libraries(profile: str) -> None:
    """Builds the libraries and copies them, and the scenarios, to where the package looks."""
    shutil.rmtree(DATA, ignore_errors=True)
    for folder in ("scenarios", "devices"):
        shutil.copytree(ROOT / "sim" / folder, DATA / folder)
    packages = _packages()
    chosen = [word for package in packages.values() for word in ("--package", package)]
    said = _cargo(
        "build", "--locked", "--profile", profile, "--message-format=json-render-diagnostics", *chosen
    )
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    LIBRARIES.mkdir()
    missing = set(packages)
    for line in said.splitlines():
        message = json.loads(line)
        name = message.get("target", {}).get("name")
        for made in message.get("filenames", []):
            if name in missing and made.endswith(f"lib{name}.so"):
                shutil.copy(made, LIBRARIES)
                missing.discard(name)
    if missing:
        raise RuntimeError(f"cargo made no library of: {', '.join(sorted(missing))}")
    _name("libcuda.so", "-Wl,-f,libcuda.so.1", "-x", "c", os.devnull)
    script = ROOT / "shim" / "hip" / "versions.map"
    for name in NAMES_OF_HIP:
        _name(
            name,
            "-Wl,--no-as-needed",
            "-Wl,-rpath,$ORIGIN",
            f"-Wl,--version-script={script}",
            str(LIBRARIES / "libshimhip.so"),
        )


def _name(name: str, *arguments: str) -> None:
    """Links a library without code that has this name, and leads to another. It is what
    xtask/src/capi/install.rs links."""
    flags = ["-shared", "-nostdlib", "-Wl,-z,noexecstack", f"-Wl,-soname,{name}"]
    flags += ["-o", str(LIBRARIES / name)]
    subprocess.run([os.environ.get("CC", "cc"), *flags, *arguments], check=True)


def _packages() -> dict[str, str]:
    """The cargo package of each library."""
    metadata = json.loads(_cargo("metadata", "--format-version=1", "--no-deps"))
    found = {
        target["name"]: package["name"]
        for package in metadata["packages"]
        for target in package["targets"]
        if target["name"] in NAMES and "cdylib" in target["crate_types"]
    }
    missing = set(NAMES) - set(found)
    if missing:
        raise RuntimeError(f"no package of the workspace makes: {', '.join(sorted(missing))}")
    return found
