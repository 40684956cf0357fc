//! What a sync is asked for, refused as a whole before anything travels.

use std::path::{Path, PathBuf};

use super::{exclude::Exclude, remote::RemotePath};
use crate::{config::timeout_ms, error::Fault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// An operation as it came; numbers of a wrong type are NaN.
#[derive(Clone, Debug, Default)]
pub struct RawOperation {
    pub files: Vec<RawMapping>,
    pub commands: Vec<RawCommand>,
}

#[derive(Clone, Debug, Default)]
pub struct RawMapping {
    pub source: String,
    pub target: String,
    pub kind: String,
    pub mode: Option<f64>,
    pub exclude: Vec<String>,
    pub follow: bool,
}

#[derive(Clone, Debug, Default)]
pub struct RawCommand {
    pub command: String,
    pub cwd: Option<String>,
    pub timeout_ms: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub files: Vec<Mapping>,
    pub commands: Vec<PostUpload>,
}

#[derive(Clone, Debug)]
pub struct Mapping {
    pub host: PathBuf,
    pub remote: RemotePath,
    pub mode: Option<u32>,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    File,
    Directory { exclude: Exclude, follow: bool },
}

#[derive(Clone, Debug)]
pub struct PostUpload {
    pub command: String,
    pub cwd: RemotePath,
    pub timeout_ms: Option<u32>,
}

/// Checks a batch, in the order in which its faults are told.
pub fn check(operations: Vec<RawOperation>, direction: Direction) -> Result<Vec<Operation>, Fault> {
    operations
        .into_iter()
        .map(|operation| {
            let files = operation.files.into_iter().map(|file| file.check(direction)).collect::<Result<_, _>>()?;
            let commands: Vec<_> = operation.commands.into_iter().map(RawCommand::check).collect::<Result<_, _>>()?;
            if direction == Direction::Out && !commands.is_empty() {
                return Err(Fault::OutboundCommands);
            }
            Ok(Operation { files, commands })
        })
        .collect()
}

impl RawMapping {
    fn check(self, direction: Direction) -> Result<Mapping, Fault> {
        let kind = match &*self.kind {
            "file" => Kind::File,
            "directory" if direction == Direction::In && self.follow => return Err(Fault::FollowUnsupported),
            "directory" => {
                Kind::Directory { exclude: Exclude::new(self.exclude.iter().map(String::as_str)), follow: self.follow }
            }
            _ => return Err(Fault::TransferKind),
        };
        let (host, remote) = match direction {
            Direction::In => (self.source, self.target),
            Direction::Out => (self.target, self.source),
        };
        if !Path::new(&host).is_absolute() || host.contains('\0') {
            return Err(Fault::HostPathRelative);
        }
        let mode = match self.mode {
            None => None,
            Some(mode) if mode.fract() == 0.0 && (0.0..=511.0).contains(&mode) => Some(mode as u32),
            Some(_) => return Err(Fault::ModeInvalid),
        };
        Ok(Mapping { host: host.into(), remote: RemotePath::parse(&remote)?, mode, kind })
    }
}

impl RawCommand {
    fn check(self) -> Result<PostUpload, Fault> {
        let cwd = self.cwd.as_deref().map_or_else(|| Ok(RemotePath::workspace()), RemotePath::parse)?;
        let timeout_ms = match self.timeout_ms {
            None => None,
            Some(ms) => Some(timeout_ms(ms).ok_or(Fault::TransferTimeout)?),
        };
        if self.command.contains('\0') {
            return Err(Fault::NulInCommand);
        }
        Ok(PostUpload { command: self.command, cwd, timeout_ms })
    }
}
