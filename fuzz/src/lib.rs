//! What the fuzz targets have in common, and what is too long for a target's file.

pub mod archive;
pub mod dice;
pub mod endpoint;
pub mod memory;
pub mod model;
pub mod pieces;
