//! A host directory → an archive. Links are stored and never followed. The directory may change meanwhile: what vanishes
//! is left out, what grows keeps the size it had, and a file that shrinks while it is read fails the whole.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use super::{
    SkipReason, Skips,
    archive::writer::{FileError, Kind, Writer},
    exclude::Exclude,
    host,
};
use crate::error::{Error, HostFault};

/// What went into an archive.
#[derive(Debug, Default)]
pub struct Packed {
    /// Regular files, each with its content.
    pub files: u64,
    /// The archive's size.
    pub bytes: u64,
    pub skips: Skips,
}

/// A directory that is being read: names that are left, in their order, and where they are.
struct Level {
    names: std::vec::IntoIter<OsString>,
    host: PathBuf,
    path: Vec<u8>,
}

struct Packer<'a, W> {
    archive: Writer<W>,
    exclude: &'a Exclude,
    /// Files that have more than one name, by what they are.
    seen: HashMap<(u64, u64), Vec<u8>>,
    packed: Packed,
}

/// Archives what is in `root`; `mode` is the root's own.
pub fn pack(root: &Path, mode: u32, exclude: &Exclude, out: impl Write) -> Result<Packed, Error> {
    let at_root = |error: io::Error| host::failed(&error, None);
    let metadata = fs::metadata(root).map_err(at_root)?;
    let mut levels = vec![Level { names: names(root).map_err(at_root)?, host: root.to_owned(), path: Vec::new() }];
    let mut packer = Packer { archive: Writer::new(out), exclude, seen: HashMap::new(), packed: Packed::default() };
    packer.archive.entry(b"./", mode, host::mtime(&metadata), Kind::Directory).map_err(at_root)?;
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            levels.pop();
            continue;
        };
        let host = level.host.join(&name);
        let Some(name) = host::bytes_of(&name) else {
            return Err(host::fault(HostFault::NameInvalid, Some(name.to_string_lossy().as_bytes())));
        };
        let path = if level.path.is_empty() { name } else { [&level.path, b"/".as_slice(), &name].concat() };
        let entered = packer.add(&host, &path).map_err(|problem| match problem {
            Problem::Io(error) => host::failed(&error, Some(&path)),
            Problem::Shrunk => host::fault(HostFault::Changed, Some(&path)),
        })?;
        if let Some(names) = entered {
            levels.push(Level { names, host, path });
        }
    }
    packer.archive.finish().map_err(at_root)?;
    Ok(Packed { bytes: packer.archive.written, ..packer.packed })
}

enum Problem {
    Io(io::Error),
    Shrunk,
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<W: Write> Packer<'_, W> {
    /// Archives one entry; of a directory it gives the names in it.
    fn add(&mut self, host: &Path, path: &[u8]) -> Result<Option<std::vec::IntoIter<OsString>>, Problem> {
        let Some(metadata) = unless_vanished(fs::symlink_metadata(host))? else { return Ok(None) };
        let (mode, mtime) = (host::mode(&metadata), host::mtime(&metadata));
        if self.exclude.matches(path, metadata.is_dir()) {
            return Ok(None);
        }
        if metadata.is_dir() {
            let Some(names) = unless_vanished(names(host))? else { return Ok(None) };
            // Reading a directory follows links: one that took its place meanwhile may lead anywhere.
            if !unless_vanished(fs::symlink_metadata(host))?.is_some_and(|metadata| metadata.is_dir()) {
                return Ok(None);
            }
            self.archive.entry(&[path, b"/"].concat(), mode, mtime, Kind::Directory)?;
            return Ok(Some(names));
        }
        if metadata.is_symlink() {
            let Some(target) = unless_vanished(fs::read_link(host))? else { return Ok(None) };
            match host::bytes_of(target.as_os_str()) {
                Some(target) => self.archive.entry(path, 0o777, mtime, Kind::Symlink { target: &target })?,
                None => self.packed.skips.push(path, SkipReason::NotAFile),
            }
            return Ok(None);
        }
        if !metadata.is_file() {
            self.packed.skips.push(path, SkipReason::NotAFile);
            return Ok(None);
        }
        self.add_file(host, path)?;
        Ok(None)
    }

    fn add_file(&mut self, host: &Path, path: &[u8]) -> Result<(), Problem> {
        let Some(mut file) = unless_vanished(host::open(host, false))? else { return Ok(()) };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        let (mode, mtime) = (host::mode(&metadata), host::mtime(&metadata));
        if let Some(identity) = host::identity(&metadata) {
            if let Some(target) = self.seen.get(&identity) {
                return Ok(self.archive.entry(path, mode, mtime, Kind::HardLink { target })?);
            }
            self.seen.insert(identity, path.to_vec());
        }
        self.packed.files += 1;
        self.archive.file(path, mode, mtime, metadata.len(), &mut file).map_err(|error| match error {
            FileError::Read(error) | FileError::Write(error) => Problem::Io(error),
            FileError::Shrunk => Problem::Shrunk,
        })
    }
}

fn names(directory: &Path) -> io::Result<std::vec::IntoIter<OsString>> {
    let mut names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names.into_iter())
}

/// What is gone, or has become something else, since its name was read is as if it had never been there.
fn unless_vanished<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::ELOOP) {
        return true;
    }
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
