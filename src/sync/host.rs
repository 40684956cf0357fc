//! What of the host's file system differs between systems, and what its failures are called. On Windows files have no
//! modes, and links only where the system lets them be made.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use super::shown;
use crate::error::{Details, Error, Fault, HostFault, Operation};

/// A failure of the host's files, at this entry of a directory.
pub fn failed(error: &io::Error, entry: Option<&[u8]>) -> Error {
    fault(HostFault::from(error), entry)
}

pub fn fault(fault: HostFault, entry: Option<&[u8]>) -> Error {
    let mut details = Details::new(Operation::FileTransfer);
    details.entry = entry.map(shown);
    Error::new(Fault::HostFile(fault), details)
}

/// A directory of one transfer's own on the file system of its target, open to nobody else; gone when dropped.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
}

impl Staging {
    /// Makes one next to a target that may not exist yet, nor the directories that it will be in.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let existing = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let mut parent = target.parent().unwrap_or(target);
        while !existing(parent) {
            parent = parent.parent().ok_or(io::ErrorKind::NotFound)?;
        }
        // Nothing can be renamed into a file system that is mounted at the target itself.
        if existing(target) && device(&fs::metadata(target)?) != device(&fs::metadata(parent)?) {
            parent = target;
        }
        let path = parent.join(format!(".createos-sync-{}", Uuid::new_v4()));
        make_private_directory(&path)?;
        Ok(Self { path })
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What is left then is out of reach for everybody but its owner.
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A new file that only its owner can open.
pub fn make_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file to read, without waiting for the other end of a FIFO, and unless `follow` no link.
pub fn open(path: &Path, follow: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let links = if follow { 0 } else { libc::O_NOFOLLOW };
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | links);
    }
    #[cfg(not(unix))]
    let _ = follow;
    options.open(path)
}

/// Exactly this mode, whatever the process's mask says.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    return fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    return fs::metadata(path).map(|_| drop(mode));
}

/// A mode's nine bits; where there are no modes, what is usual.
pub fn mode(metadata: &Metadata) -> u32 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(metadata) & 0o777;
    #[cfg(not(unix))]
    return if metadata.is_dir() { 0o755 } else { 0o644 };
}

fn device(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::dev(metadata);
    #[cfg(not(unix))]
    return u64::from(!metadata.is_dir());
}

/// What a file is by itself, if it can have more than one name.
pub fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// Seconds since 1970; what is older counts as no time at all.
pub fn mtime(metadata: &Metadata) -> u64 {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    modified.map_or(0, |since| since.as_secs())
}

/// Gives a file its time. One that the system cannot express changes nothing.
pub fn set_mtime(file: &File, seconds: u64) {
    if let Some(time) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
        let _ = file.set_modified(time);
    }
}

pub fn make_link(target: &[u8], path: &Path) -> io::Result<()> {
    let target = path_of(target)?;
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    return std::os::windows::fs::symlink_file(target, path);
    #[cfg(not(any(unix, windows)))]
    return Err(io::ErrorKind::Unsupported.into());
}

/// An archive's path or name, as the host's.
pub fn path_of(bytes: &[u8]) -> io::Result<PathBuf> {
    #[cfg(unix)]
    return Ok(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).into());
    #[cfg(not(unix))]
    return std::str::from_utf8(bytes).map(PathBuf::from).map_err(|_| io::ErrorKind::InvalidFilename.into());
}

/// A name or a link's target, as an archive's; `None` for one that no archive can carry.
pub fn bytes_of(name: &std::ffi::OsStr) -> Option<Vec<u8>> {
    #[cfg(unix)]
    return Some(std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec());
    #[cfg(not(unix))]
    return name.to_str().map(|name| name.replace('\\', "/").into_bytes());
}
