//! File sync: files and directories between the host and a lease's sandbox. A directory travels as one tar archive, which
//! is written, read, checked and unpacked as it passes, in a few blocks of memory.
//!
//! - [`batch`]: what a caller asks for, refused as a whole before anything travels.
//! - [`remote`]: paths in the sandbox and the scripts that prove, right before they act, that a path is where it says.
//! - [`exclude`]: which entries of a directory stay behind.
//! - [`archive`]: tar, both ways. Pure: knows blocks and names, but no file system.
//! - [`pack`] and [`unpack`]: a host directory ↔ an archive; `promote`: what was unpacked → its place.
//! - `host`: what of the host's file system is not the same everywhere, and what its failures are called.
//! - `pipe`: bytes between blocking file work and the network.
//! - [`transfer`]: a batch, step by step, by way of `inbound` and `outbound`.

pub mod archive;
pub mod batch;
pub mod exclude;
mod host;
mod inbound;
mod outbound;
pub mod pack;
mod pipe;
mod promote;
pub mod remote;
pub mod transfer;
pub mod unpack;

/// An entry that does not travel, though nobody excluded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its path in the directory, as text.
    pub entry: String,
    pub reason: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// A link to an absolute path: on the other side it would lead somewhere else.
    AbsoluteLink,
    /// A socket, a FIFO or a device, which no archive can carry.
    NotAFile,
}

impl SkipReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AbsoluteLink => "a link to an absolute path",
            Self::NotAFile => "neither a file, a directory nor a link",
        }
    }
}

/// Which entries were skipped: the first of them by name, all of them by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    pub named: Vec<Skipped>,
    pub total: u64,
}

impl Skips {
    /// More names would help nobody, and they come from elsewhere.
    pub const NAMED: usize = 100;

    pub fn push(&mut self, path: &[u8], reason: SkipReason) {
        self.total += 1;
        if self.named.len() < Self::NAMED {
            self.named.push(Skipped { entry: shown(path), reason });
        }
    }

    pub fn append(&mut self, other: Self) {
        self.total += other.total;
        let room = Self::NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
    }
}

/// A path as text for people: not UTF-8 becomes U+FFFD, and what is endless is cut.
pub fn shown(path: &[u8]) -> String {
    const LONGEST: usize = 1024;
    String::from_utf8_lossy(path.get(..LONGEST).unwrap_or(path)).into_owned()
}
