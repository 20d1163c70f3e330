"""Get the scripts that reports embed from the npm registry: d3 and Observable Plot, with licences and versions.

    python benchmarks/vendor_charts.py

Writes rbench/report/vendor. A package whose archive does not have the hash below is refused. To take a newer version,
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
    "d3": ("7.9.2", "dist/d3.min.js", "sha512-ZKb/mONPVKzaO5UlcWcwN8bS4ezvQaYu+bsou+XgNABdGC800kwH651ADTbbTxMPHW13UlvbQafdmJQDk1w7Mg=="),
    "@observablehq/plot": ("0.6.17", "dist/plot.umd.min.js", "sha512-/qaXP/7mc4MUS0s4cPPFASDRjtsWp85/TbfsciqDgU1HwYixbSbbytNuInD8AcTYC3xaxACgVX06agdfQy9W+g=="),
}
"""By package: version, the file that is taken, and the archive's hash (sha512, as npm states it)."""


def main() -> None:
    """Download, check and write each package's file and licence, and versions.json."""
    versions = []
    for package, (version, file, integrity) in PACKAGES.items():
        name = package.rpartition("/")[2]
        archive = httpx.get(f"{REGISTRY}/{package}/-/{name}-{version}.tgz", follow_redirects=True).raise_for_status()
        found = "sha512-" + base64.b64encode(hashlib.sha512(archive.content).digest()).decode()
        if found != integrity:
            raise SystemExit(f"{package} {version}: its hash is {found}, expected {integrity}")
        with tarfile.open(fileobj=io.BytesIO(archive.content)) as packed:
            for member, target in ((file, Path(file).name), ("LICENSE", f"{name}.LICENSE")):
                content = packed.extractfile(f"package/{member}")
                assert content is not None
                (OUT / target).write_bytes(content.read())
        versions.append({"package": package, "version": version, "file": Path(file).name, "licence": "ISC"})
    (OUT / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
