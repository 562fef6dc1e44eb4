"""Refuses to keep SQLite on a network file system, where its locks and its WAL index do not hold."""

from __future__ import annotations

from pathlib import Path

from hermes.errors import StoreError

NETWORK_TYPES = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "9p",
        "ncpfs",
        "ocfs2",
        "gpfs",
        "davfs",
    }
)
MOUNTS = Path("/proc/self/mountinfo")
NETWORK_FUSE = ("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.davfs", "fuse.glusterfs", "fuse.ceph")


def file_system_type(path: Path, mountinfo: str) -> str | None:
    """Type of the file system that holds `path`, read from the text of /proc/self/mountinfo (proc(5))."""
    best: tuple[int, str] | None = None
    target = str(path)
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        mount = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and (best is None or len(mount) >= best[0]):
            best = (len(mount), right.split()[0])
    return best[1] if best else None


def refuse_network_file_system(folder: Path) -> None:
    """Raises StoreError when `folder` is on a network file system. What the kernel does not name is let pass."""
    if not MOUNTS.exists():
        return
    kind = file_system_type(folder.resolve(), MOUNTS.read_text(encoding="utf-8", errors="replace"))
    if kind in NETWORK_TYPES or (kind or "").startswith(NETWORK_FUSE):
        raise StoreError(
            f"{folder} is on a network file system ({kind}): SQLite's locks do not hold there and two processes would "
            "corrupt the database. Put `data:` on a local disk, or use PostgreSQL."
        )
