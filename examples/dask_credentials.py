"""Credentials for a Dask cluster: ``python examples/dask_credentials.py FOLDER`` writes them as Dask's configuration.

If the environment variable DASK_CONFIG of a process is the folder, the process encrypts its connections and accepts
only processes with the same credentials. Anyone with the credentials can run code on the cluster, so only you can read
the folder. The credentials are valid for a year. The configuration also puts Dask's scratch files, from which Dask
imports code, into this folder, and disables all pages of Dask's HTTP servers, which require no credentials.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from distributed import Security


def configuration(folder: Path) -> dict[str, object]:
    """New credentials in the form of Dask's configuration: one key and one certificate for every process."""
    security = Security.temporary()
    pair = {"cert": security.tls_client_cert, "key": security.tls_client_key}
    comm = {
        "require-encryption": True,
        "tls": {"ca-file": security.tls_ca_file, "scheduler": pair, "worker": pair, "client": pair},
    }
    silent = {"http": {"routes": []}}
    distributed = {"comm": comm, "scheduler": silent, "worker": silent}
    return {"temporary-directory": str(folder), "distributed": distributed}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).absolute()
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        sys.exit(f"{folder} is there already: remove it, or give another name.")
    (folder / "dask.yaml").write_text(yaml.dump(configuration(folder)), encoding="ascii")
    print(f"The credentials are in {folder}. In every terminal: export DASK_CONFIG={folder}")
