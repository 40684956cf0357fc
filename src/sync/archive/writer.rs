//! Entries → an archive, in GNU's format, which every tar reads and which carries names of any length and any bytes.

use std::io::{self, Read, Write};

use super::header::{BLOCK, Header, LONGEST_NAME, padding};

/// What is to be archived, without its content.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    Directory,
    File {
        size: u64,
    },
    Symlink {
        target: &'a [u8],
    },
    /// Another name for an entry before it.
    HardLink {
        target: &'a [u8],
    },
}

pub struct Writer<W> {
    out: W,
    buffer: Box<[u8]>,
    /// Bytes written.
    pub written: u64,
}

/// How much of a file is held at a time.
const BUFFER: usize = 256 * 1024;

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Self {
        Self { out, buffer: vec![0; BUFFER].into(), written: 0 }
    }

    /// An entry without content: anything but a file that is not empty.
    pub fn entry(&mut self, path: &[u8], mode: u32, mtime: u64, kind: Kind<'_>) -> io::Result<()> {
        let (kind, link, size): (_, &[u8], _) = match kind {
            Kind::Directory => (b'5', b"", 0),
            Kind::File { size } => (b'0', b"", size),
            Kind::Symlink { target } => (b'2', target, 0),
            Kind::HardLink { target } => (b'1', target, 0),
        };
        self.long(b'K', link)?;
        self.long(b'L', path)?;
        let header = Header { path: path.to_vec(), link: link.to_vec(), mode, size, mtime, kind };
        self.write(&header.encode())
    }

    /// A file of exactly `size` bytes. A source that has fewer is an error, what it has beyond them is left out: it has
    /// grown meanwhile.
    pub fn file(
        &mut self,
        path: &[u8],
        mode: u32,
        mtime: u64,
        size: u64,
        source: &mut impl Read,
    ) -> Result<(), FileError> {
        self.entry(path, mode, mtime, Kind::File { size }).map_err(FileError::Write)?;
        let mut left = size;
        while left > 0 {
            let length = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = source.read(&mut self.buffer[..length]).map_err(FileError::Read)?;
            if read == 0 {
                return Err(FileError::Shrunk);
            }
            self.out.write_all(&self.buffer[..read]).map_err(FileError::Write)?;
            self.written += read as u64;
            left -= read as u64;
        }
        self.pad(size).map_err(FileError::Write)
    }

    /// Ends the archive. Without it, whoever reads it finds it cut.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write(&[0; 2 * BLOCK])?;
        self.out.flush()
    }

    /// A name that no header holds goes before it, as the content of an entry.
    fn long(&mut self, kind: u8, name: &[u8]) -> io::Result<()> {
        if name.len() <= LONGEST_NAME {
            return Ok(());
        }
        let content = [name, b"\0"].concat();
        let size = content.len() as u64;
        let header = Header { path: b"././@LongLink".to_vec(), mode: 0o644, size, kind, ..Header::default() };
        self.write(&header.encode())?;
        self.write(&content)?;
        self.pad(size)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        self.write(&[0; BLOCK][..padding(size) as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Why a file could not be archived.
#[derive(Debug)]
pub enum FileError {
    Read(io::Error),
    Write(io::Error),
    /// It ended before the size that its header already tells.
    Shrunk,
}
