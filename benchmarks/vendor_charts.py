"""Get the scripts that reports embed from the npm registry: d3 and Observable Plot, with licences and versions.

    python benchmarks/vendor_charts.py          # writes rbench/report/vendor, which is committed

A package whose archive does not have the hash below is refused. To take a newer version,
change PACKAGES: `npm view NAME@VERSION dist.integrity` prints its hash.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import httpx

OUT = Path(__file__).resolve().parent.parent / "rbench" / "report" / "vendor"
REGISTRY = "https://registry.npmjs.org"
PACKAGES = {
    "d3": (
        "7.9.2",
        "dist/d3.min.js",
        "sha512-ZKb/mONPVKzaO5UlcWcwN8bS4ezvQaYu+bsou+XgNABdGC800kwH651ADTbbTxMPHW13UlvbQafdmJQDk1w7Mg==",
    ),
    "@observablehq/plot": (
        "0.6.17",
        "dist/plot.umd.min.js",
        "sha512-/qaXP/7mc4MUS0s4cPPFASDRjtsWp85/TbfsciqDgU1HwYixbSbbytNuInD8AcTYC3xaxACgVX06agdfQy9W+g==",
    ),
}
"""By package: version, the file that is taken, and the archive's hash (sha512, as npm states it)."""


def main() -> None:
    """Download, check and write each package's file and licence, and versions.json."""
    versions = []
    for package, (version, file, integrity) in PACKAGES.items():
        found, name = archive(package, version, integrity), Path(file).name
        (OUT / name).write_bytes(found[file])
        (OUT / f"{package.rpartition('/')[2]}.LICENSE").write_bytes(found["LICENSE"])
        versions.append({"package": package, "version": version, "file": name, "licence": "ISC"})
    (OUT / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")


def archive(package: str, version: str, integrity: str) -> dict[str, bytes]:
    """Download a package and return its files by name. Exits where its hash is another."""
    name = package.rpartition("/")[2]
    found = httpx.get(f"{REGISTRY}/{package}/-/{name}-{version}.tgz", follow_redirects=True).raise_for_status().content
    digest = "sha512-" + base64.b64encode(hashlib.sha512(found).digest()).decode()
    if digest != integrity:
        raise SystemExit(f"{package} {version}: its hash is {digest}, expected {integrity}")
    with tarfile.open(fileobj=io.BytesIO(found)) as packed:
        members = [(one, packed.extractfile(one)) for one in packed.getmembers()]
        return {one.name.removeprefix("package/"): file.read() for one, file in members if file is not None}


if __name__ == "__main__":
    main()
