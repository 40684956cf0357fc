//! Which data frames are new. Owns the number of the last accepted one, through any number of connections; what a
//! valid number is, `frame` knows.

use crate::error::Fault;

/// The numbers of one process's data frames: from 1, both streams together, without holes. After a reconnect a server
/// may replay frames that were accepted already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    New,
    /// To be skipped without a look at what it carries.
    Seen,
}

impl Sequence {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn accept(&mut self, seq: u64) -> Result<Verdict, Fault> {
        if seq <= self.last {
            Ok(Verdict::Seen)
        } else if seq - self.last == 1 {
            self.last = seq;
            Ok(Verdict::New)
        } else {
            Err(Fault::SequenceGap)
        }
    }

    /// Where to resume; 0 before the first frame.
    pub fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_new_once_and_a_hole_changes_nothing() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.last(), 0);
        assert_eq!(sequence.accept(2), Err(Fault::SequenceGap));
        assert_eq!(sequence.accept(1), Ok(Verdict::New));
        assert_eq!(sequence.accept(1), Ok(Verdict::Seen));
        assert_eq!(sequence.accept(2), Ok(Verdict::New));
        assert_eq!(sequence.accept(1), Ok(Verdict::Seen));
        assert_eq!(sequence.accept(u64::MAX), Err(Fault::SequenceGap));
        assert_eq!(sequence.last(), 2);
    }
}
