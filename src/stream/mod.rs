//! From the bytes of a connect stream to the text of a command, step by step: [`lines`] → [`frame`] → [`sequence`] →
//! [`text`] → [`tail`]. Owns what the bytes mean. Pure: no I/O, no clock and no task; `process::follow` reads the
//! connection, decides about reconnecting and hands the text on.

pub mod frame;
mod json;
pub mod lines;
pub mod sequence;
pub mod tail;
pub mod text;

/// One of the two output streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// For arrays that hold something for each stream.
    pub fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}
