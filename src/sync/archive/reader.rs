//! An archive → its entries, one by one, each of them safe to unpack by what can be told from the archive alone. One
//! parser both validates and extracts, so there is nothing that one of two could see and the other not. What depends on
//! earlier entries, such as a path through a link, is judged by whoever unpacks.

use std::io::{self, Read};

use super::{
    header::{BLOCK, Block, Header, Malformed, padding},
    pax::Records,
};

/// What an archive may declare, content and everything around it each.
pub const MOST: u64 = 10 * 1024 * 1024 * 1024;

/// No name and no records are longer.
const LONGEST: u64 = 1024 * 1024;

/// An entry, its paths relative to the archive's root, in their shortest form and free of `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub mode: u32,
    pub mtime: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// Its content is what [`Reader::read`] gives.
    File,
    /// The target as it came: relative, and by its text within the root, or absolute.
    Symlink(Vec<u8>),
    /// A path, like an entry's.
    HardLink(Vec<u8>),
}

#[derive(Debug)]
pub enum Bad {
    /// The archive is cut, malformed, too large or unsafe, at this entry, if it has a name.
    Unsafe(Option<Vec<u8>>),
    /// It could not be read to its end.
    Read(io::Error),
}

pub struct Reader<R> {
    source: R,
    /// What is left of the current entry's content, and of the padding after it.
    left: u64,
    padding: u64,
    content: u64,
    around: u64,
    /// The entry that is being read, for errors.
    current: Option<Vec<u8>>,
}

/// What goes before an entry and is about it.
#[derive(Default)]
struct Ahead {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Option<Records>,
}

impl<R: Read> Reader<R> {
    pub fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0, content: 0, around: 0, current: None }
    }

    /// The next entry; what was not read of the last one is passed over. `None` after the end, which has been verified.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Bad> {
        let mut ahead = Ahead::default();
        loop {
            self.pass_over()?;
            self.current = None;
            let block = self.block()?;
            let Some(header) = self.well_formed(Header::decode(&block))? else {
                self.end(&ahead)?;
                return Ok(None);
            };
            self.current = Some(header.path.clone());
            match header.kind {
                b'L' | b'K' => {
                    let name = self.long_name(header.size)?;
                    let place = if header.kind == b'L' { &mut ahead.path } else { &mut ahead.link };
                    if place.replace(name).is_some() || ahead.records.is_some() {
                        return Err(self.bad());
                    }
                }
                b'x' => {
                    let records = self.records(header.size)?;
                    if ahead.path.is_some() || ahead.link.is_some() || ahead.records.replace(records).is_some() {
                        return Err(self.bad());
                    }
                }
                // Comments and the like are fine, but no name and no size can hold for all entries.
                b'g' if self.records(header.size)?.is_empty() => {}
                _ => {
                    if let Some(entry) = self.entry(header, std::mem::take(&mut ahead))? {
                        return Ok(Some(entry));
                    }
                }
            }
        }
    }

    /// Content of the current entry; 0 at its end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Bad> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let read = self.source.read(&mut buffer[..length]).map_err(Bad::Read)?;
        if read == 0 {
            return Err(self.bad());
        }
        self.left -= read as u64;
        Ok(read)
    }

    /// The current entry is not safe.
    pub fn bad(&self) -> Bad {
        Bad::Unsafe(self.current.clone())
    }

    /// `None` is the root itself, whose place and mode are not the archive's to tell.
    fn entry(&mut self, header: Header, ahead: Ahead) -> Result<Option<Entry>, Bad> {
        let records = ahead.records.unwrap_or_default();
        let raw = records.path.or(ahead.path).unwrap_or(header.path);
        let link = records.link.or(ahead.link).unwrap_or(header.link);
        let size = records.size.unwrap_or(header.size);
        self.current = Some(raw.clone());
        let path = confined(&raw).ok_or_else(|| self.bad())?;
        // Before there was a kind for them, directories were files whose name ends with a slash.
        let directory = header.kind == b'5' || (header.kind == 0 && raw.ends_with(b"/"));
        let kind = match header.kind {
            _ if directory => Kind::Directory,
            b'0' | 0 | b'7' if !raw.ends_with(b"/") => Kind::File,
            b'1' => Kind::HardLink(confined(&link).filter(|link| !link.is_empty()).ok_or_else(|| self.bad())?),
            b'2' if is_within(&path, &link) => Kind::Symlink(link),
            _ => return Err(self.bad()),
        };
        self.content = self.content.checked_add(size).filter(|&content| content <= MOST).ok_or_else(|| self.bad())?;
        if kind != Kind::File && size > 0 {
            return Err(self.bad());
        }
        (self.left, self.padding) = (size, padding(size));
        match (path.is_empty(), kind) {
            (true, Kind::Directory) => Ok(None),
            (true, _) => Err(self.bad()),
            (false, kind) => Ok(Some(Entry { path, mode: header.mode & 0o777, mtime: header.mtime, kind })),
        }
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, Bad> {
        let mut name = self.content_of(size)?;
        while name.last() == Some(&0) {
            name.pop();
        }
        if name.is_empty() || name.contains(&0) { Err(self.bad()) } else { Ok(name) }
    }

    fn records(&mut self, size: u64) -> Result<Records, Bad> {
        let content = self.content_of(size)?;
        self.well_formed(Records::parse(&content))
    }

    fn content_of(&mut self, size: u64) -> Result<Vec<u8>, Bad> {
        if size > LONGEST {
            return Err(self.bad());
        }
        self.charge(size)?;
        (self.left, self.padding) = (size, padding(size));
        let mut content = vec![0; size as usize];
        let mut filled = 0;
        while filled < content.len() {
            filled += self.read(&mut content[filled..])?;
        }
        Ok(content)
    }

    fn well_formed<T>(&self, read: Result<T, Malformed>) -> Result<T, Bad> {
        read.map_err(|Malformed| self.bad())
    }

    fn pass_over(&mut self) -> Result<(), Bad> {
        let mut rest = [0; 8 * BLOCK];
        while self.read(&mut rest)? > 0 {}
        self.left = std::mem::take(&mut self.padding);
        while self.read(&mut rest)? > 0 {}
        Ok(())
    }

    fn block(&mut self) -> Result<Block, Bad> {
        self.charge(BLOCK as u64)?;
        let mut block = [0; BLOCK];
        self.left = BLOCK as u64;
        let mut filled = 0;
        while filled < BLOCK {
            filled += self.read(&mut block[filled..])?;
        }
        Ok(block)
    }

    /// Counts what is neither a file's content nor its padding.
    fn charge(&mut self, bytes: u64) -> Result<(), Bad> {
        self.around += bytes;
        if self.around > MOST { Err(self.bad()) } else { Ok(()) }
    }

    /// Two blocks of zeros end an archive; after them come more of them, or nothing.
    fn end(&mut self, ahead: &Ahead) -> Result<(), Bad> {
        let dangling = ahead.path.is_some() || ahead.link.is_some() || ahead.records.is_some();
        if dangling || self.block()?.iter().any(|&byte| byte != 0) {
            return Err(self.bad());
        }
        let mut rest = [0; 8 * BLOCK];
        loop {
            let read = self.source.read(&mut rest).map_err(Bad::Read)?;
            if read == 0 {
                return Ok(());
            }
            self.charge(read as u64)?;
            if rest[..read].iter().any(|&byte| byte != 0) {
                return Err(self.bad());
            }
        }
    }
}

/// A path in its shortest form, empty for the root; `None` if it is absolute or climbs. Backslashes are refused since
/// elsewhere they separate.
fn confined(path: &[u8]) -> Option<Vec<u8>> {
    if path.is_empty() || path.starts_with(b"/") || path.contains(&b'\\') {
        return None;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return None,
            _ => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

/// Whether a link at `path` stays within the root by its text, or is absolute, which is for others to judge.
pub fn is_within(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.contains(&b'\\') {
        return false;
    }
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.iter().filter(|&&byte| byte == b'/').count();
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

#[cfg(test)]
mod tests;
