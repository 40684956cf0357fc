//! An archive → a directory of the transfer's own. Everything that depends on other entries is judged here: what a path
//! leads through, what a link leads to. Nothing of it is at its place before all of it was found to be safe.

use std::{
    collections::HashMap,
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use super::{
    SkipReason, Skips,
    archive::reader::{Bad, Entry, Kind, Reader},
    exclude::Exclude,
    host,
};
use crate::error::{Details, Error, Fault, Operation};

/// How much of a file is held at a time.
const BUFFER: usize = 256 * 1024;

/// As many links as systems follow.
const MOST_LINKS: u32 = 40;

/// What came out of an archive.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Regular files, each with its content.
    pub files: u64,
    pub skips: Skips,
    /// Directories that their owner may not change, and their modes: these are theirs only once they are at their place.
    pub closed: Vec<(PathBuf, u32)>,
}

/// Unpacks into `root`, which is made, and `aside`, which is for what is left out but may have another name that is not.
pub fn unpack(source: impl Read, root: &Path, aside: &Path, exclude: &Exclude) -> Result<Unpacked, Error> {
    let mut unpacker = Unpacker {
        reader: Reader::new(source),
        root,
        aside,
        exclude,
        left_out: HashMap::new(),
        verified: None,
        buffer: vec![0; BUFFER],
        links: Vec::new(),
        unpacked: Unpacked::default(),
    };
    let made = host::make_private_directory(root).and_then(|()| host::make_private_directory(aside));
    made.map_err(|error| host::failed(&error, None))?;
    while let Some(entry) = unpacker.reader.next_entry().map_err(refused)? {
        unpacker.place(&entry).map_err(|problem| match problem {
            Problem::Unsafe => refused(Bad::Unsafe(Some(entry.path.clone()))),
            Problem::Archive(bad) => refused(bad),
            Problem::Host(error) => host::failed(&error, Some(&entry.path)),
        })?;
    }
    unpacker.judge_links()?;
    Ok(unpacker.unpacked)
}

fn refused(bad: Bad) -> Error {
    match bad {
        Bad::Unsafe(entry) => {
            let mut details = Details::new(Operation::FileTransfer);
            details.entry = entry.as_deref().map(super::shown);
            Error::new(Fault::ArchiveUnsafe, details)
        }
        Bad::Read(error) => host::failed(&error, None),
    }
}

enum Problem {
    Unsafe,
    Archive(Bad),
    Host(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

struct Unpacker<'a, R> {
    reader: Reader<R>,
    root: &'a Path,
    aside: &'a Path,
    exclude: &'a Exclude,
    /// Files that the exclusion left out, and where they are.
    left_out: HashMap<Vec<u8>, PathBuf>,
    /// The directory that the last entry was in: it is one, and in nothing but directories.
    verified: Option<Vec<u8>>,
    buffer: Vec<u8>,
    /// Links that climb. They stay within the root by their text, but may lead through other links.
    links: Vec<Vec<u8>>,
    unpacked: Unpacked,
}

impl<R: Read> Unpacker<'_, R> {
    fn place(&mut self, entry: &Entry) -> Result<(), Problem> {
        if self.exclude.covers(&entry.path, entry.kind == Kind::Directory) {
            if entry.kind == Kind::File {
                let path = match self.left_out.get(&entry.path) {
                    // What comes later is newer, and other names keep what they were given.
                    Some(path) => fs::remove_file(path).map(|()| path.clone())?,
                    None => self.aside.join(self.left_out.len().to_string()),
                };
                self.write_file(entry, &path)?;
                self.left_out.insert(entry.path.clone(), path);
            }
            return Ok(());
        }
        let path = self.root.join(host::path_of(&entry.path)?);
        self.make_parents(&entry.path)?;
        let existing = found(&path)?;
        if entry.kind == Kind::Directory {
            match existing {
                None => host::make_private_directory(&path)?,
                Some(metadata) if metadata.is_dir() => {}
                Some(_) => return Err(Problem::Unsafe),
            }
            // Until all is in it, its owner needs to get in.
            host::set_mode(&path, entry.mode | 0o700)?;
            if entry.mode & 0o700 != 0o700 {
                self.unpacked.closed.push((host::path_of(&entry.path)?, entry.mode));
            }
            return Ok(());
        }
        match existing {
            None => {}
            Some(metadata) if metadata.is_dir() => return Err(Problem::Unsafe),
            // An archive that was appended to: what comes later is newer.
            Some(_) if !is_itself(entry) => fs::remove_file(&path)?,
            Some(_) => return Err(Problem::Unsafe),
        }
        match &entry.kind {
            Kind::File => {
                self.write_file(entry, &path)?;
                self.unpacked.files += 1;
            }
            Kind::Symlink(target) => self.link(&entry.path, target, &path)?,
            Kind::HardLink(target) => self.hard_link(entry, target, &path)?,
            Kind::Directory => {}
        }
        Ok(())
    }

    fn write_file(&mut self, entry: &Entry, path: &Path) -> Result<(), Problem> {
        let mut file = host::make_private_file(path)?;
        loop {
            match self.reader.read(&mut self.buffer).map_err(Problem::Archive)? {
                0 => break,
                length => file.write_all(&self.buffer[..length])?,
            }
        }
        host::set_mtime(&file, entry.mtime);
        Ok(host::set_mode(path, entry.mode)?)
    }

    fn link(&mut self, path: &[u8], target: &[u8], at: &Path) -> Result<(), Problem> {
        if target.starts_with(b"/") || target.split(|&byte| byte == b'/').any(|part| part == b"..") {
            self.links.push(path.to_vec());
        }
        Ok(host::make_link(target, at)?)
    }

    /// Another name for an entry of this archive, counted from its root.
    fn hard_link(&mut self, entry: &Entry, target: &[u8], path: &Path) -> Result<(), Problem> {
        if let Some(left_out) = self.left_out.get(target) {
            return Ok(fs::hard_link(left_out, path)?);
        }
        self.verify_parents(target)?;
        let source = self.root.join(host::path_of(target)?);
        match found(&source)? {
            Some(metadata) if metadata.is_file() => Ok(fs::hard_link(source, path)?),
            // Elsewhere the same text can lead elsewhere.
            Some(metadata) if metadata.is_symlink() => {
                let text = host::bytes_of(fs::read_link(&source)?.as_os_str()).ok_or(Problem::Unsafe)?;
                if !super::archive::reader::is_within(&entry.path, &text) {
                    return Err(Problem::Unsafe);
                }
                self.link(&entry.path, &text, path)
            }
            _ => Err(Problem::Unsafe),
        }
    }

    /// Makes the directories that an entry is in, where the archive has not. Never through a link.
    fn make_parents(&mut self, path: &[u8]) -> Result<(), Problem> {
        let Some(parent) = parent(path) else { return Ok(()) };
        if self.verified.as_deref() == Some(parent) {
            return Ok(());
        }
        for end in ends(parent) {
            let directory = self.root.join(host::path_of(&parent[..end])?);
            match found(&directory)? {
                None => {
                    host::make_private_directory(&directory)?;
                    host::set_mode(&directory, 0o755)?;
                }
                Some(metadata) if metadata.is_dir() => {}
                Some(_) => return Err(Problem::Unsafe),
            }
        }
        // Directories are never replaced, so this stays true.
        self.verified = Some(parent.to_vec());
        Ok(())
    }

    fn verify_parents(&self, path: &[u8]) -> Result<(), Problem> {
        let Some(parent) = parent(path) else { return Ok(()) };
        for end in ends(parent) {
            let directory = self.root.join(host::path_of(&parent[..end])?);
            if !found(&directory)?.is_some_and(|metadata| metadata.is_dir()) {
                return Err(Problem::Unsafe);
            }
        }
        Ok(())
    }

    /// Leaves out links to absolute paths, which kept their place so that nothing could be written through it, and refuses
    /// links that lead out of the root by way of others.
    fn judge_links(&mut self) -> Result<(), Error> {
        for path in &self.links {
            let failed = |error: io::Error| host::failed(&error, Some(path));
            let at = self.root.join(host::path_of(path).map_err(failed)?);
            let Some(target) = target_of(&at).map_err(failed)? else { continue };
            if !target.starts_with(b"/") && self.leads_out(path, &target).map_err(failed)? {
                return Err(refused(Bad::Unsafe(Some(path.clone()))));
            }
        }
        for path in &self.links {
            let failed = |error: io::Error| host::failed(&error, Some(path));
            let at = self.root.join(host::path_of(path).map_err(failed)?);
            if target_of(&at).map_err(failed)?.is_some_and(|target| target.starts_with(b"/")) {
                fs::remove_file(&at).map_err(failed)?;
                self.unpacked.skips.push(path, SkipReason::AbsoluteLink);
            }
        }
        Ok(())
    }

    /// Follows a link as a system would for which the root is the root's only way out.
    fn leads_out(&self, path: &[u8], target: &[u8]) -> io::Result<bool> {
        let mut here: Vec<Vec<u8>> = parent(path).map_or_else(Vec::new, parts);
        let mut todo: Vec<Vec<u8>> = parts(target);
        todo.reverse();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match &*part {
                b"" | b"." => continue,
                b".." if here.pop().is_none() => return Ok(true),
                b".." => continue,
                _ => here.push(part),
            }
            let at = self.root.join(host::path_of(&here.join(&b'/'))?);
            let Some(next) = target_of(&at)? else { continue };
            links += 1;
            // It will not exist there, or leads nowhere at all.
            if next.starts_with(b"/") || links > MOST_LINKS {
                return Ok(false);
            }
            here.pop();
            todo.extend(parts(&next).into_iter().rev());
        }
        Ok(false)
    }
}

/// A hard link to itself would remove what it is to name.
fn is_itself(entry: &Entry) -> bool {
    matches!(&entry.kind, Kind::HardLink(target) if *target == entry.path)
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|&byte| byte == b'/').map(|slash| &path[..slash])
}

fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect()
}

/// Where each directory of a path ends, the outermost first.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()])
}

fn found(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a link leads; `None` for what is no link.
fn target_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match found(path) {
        Ok(Some(metadata)) if metadata.is_symlink() => Ok(host::bytes_of(fs::read_link(path)?.as_os_str())),
        Ok(_) => Ok(None),
        // Something that is no directory is in its way.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
