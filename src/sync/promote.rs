//! What was unpacked → its place, by renaming: nothing appears there in part, or before it has its mode. A directory that
//! exists already gets the entries one by one, after it was made sure that none of them is in another's way.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::host;
use crate::error::{Error, Fault, HostFault};

/// Modes of what no caller gave one.
const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

pub fn promote_file(staged: &Path, target: &Path, mode: Option<u32>) -> Result<(), Error> {
    let promoted = host::set_mode(staged, mode.unwrap_or(FILE))
        .and_then(|()| make_parent(target))
        .and_then(|()| fs::rename(staged, target));
    promoted.map_err(|error| host::failed(&error, None))
}

/// `closed` are directories in it whose owner may not change them in the end.
pub fn promote_directory(
    staged: &Path,
    target: &Path,
    mode: Option<u32>,
    closed: &[(PathBuf, u32)],
) -> Result<(), Error> {
    let failed = |error: io::Error| host::failed(&error, None);
    match existing_directory(target)? {
        None => {
            // Its owner's rights come last: who may not change a directory may not rename it.
            host::set_mode(staged, mode.unwrap_or(DIRECTORY) | 0o700).map_err(failed)?;
            make_parent(target).and_then(|()| fs::rename(staged, target)).map_err(failed)?;
        }
        Some(()) => {
            check_merge(staged, target)?;
            if let Some(mode) = mode {
                host::set_mode(target, mode | 0o700).map_err(failed)?;
            }
            merge(staged, target).map_err(failed)?;
        }
    }
    // The innermost first: from outside of a closed directory nothing in it can be changed.
    let mut closed: Vec<_> = closed.iter().collect();
    closed.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
    for (path, mode) in closed {
        host::set_mode(&target.join(path), *mode).map_err(failed)?;
    }
    match mode {
        Some(mode) if mode & 0o700 != 0o700 => host::set_mode(target, mode).map_err(failed),
        _ => Ok(()),
    }
}

/// Whether the target of a directory is there; refused if it is something else.
pub fn existing_directory(target: &Path) -> Result<Option<()>, Error> {
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_symlink() => Err(Fault::ArchiveDestination.into()),
        Ok(metadata) if metadata.is_dir() => Ok(Some(())),
        Ok(_) => Err(host::fault(HostFault::InTheWay, None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(host::failed(&error, None)),
    }
}

fn make_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Whether each entry can take its place: no directory where something else is, nothing else where a directory is, and
/// no way through a link.
fn check_merge(staged: &Path, target: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| host::failed(&error, None);
    for entry in fs::read_dir(staged).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        let place = target.join(entry.file_name());
        if is_directory {
            if existing_directory(&place)?.is_some() {
                check_merge(&entry.path(), &place)?;
            }
        } else if fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(host::fault(HostFault::InTheWay, None));
        }
    }
    Ok(())
}

fn merge(staged: &Path, target: &Path) -> io::Result<()> {
    for entry in fs::read_dir(staged)? {
        let entry = entry?;
        let place = target.join(entry.file_name());
        let existing = fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_dir());
        if existing && entry.file_type()?.is_dir() {
            host::set_mode(&place, host::mode(&entry.metadata()?))?;
            merge(&entry.path(), &place)?;
        } else {
            fs::rename(entry.path(), place)?;
        }
    }
    Ok(())
}
