//! Who holds which sandbox: [`registry`] knows what runs on a lease and whether it may be used, [`provider`] executes,
//! releases and shuts down by it. A lease begins with [`acquire`], or again with [`resume`]; [`probe`] tries whether one
//! could.

pub mod acquire;
pub mod probe;
pub mod provider;
pub mod registry;
pub mod resume;

/// Where a lease's workspace is in its sandbox.
pub const WORKSPACE: &str = "/paperclip-workspace";

/// The file that tells a lease's sandbox from any other of that name: hosts leave its directory out of what they export.
const MARKER: &str = "/paperclip-workspace/.paperclip-runtime/.paperclip-createos-lease";
