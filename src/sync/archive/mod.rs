//! The tar format, as much of it as directories need: ustar, GNU's long names, PAX paths and sizes. [`header`] is one
//! block, [`pax`] the records before an entry, [`writer`] makes archives and [`reader`] takes them apart and refuses what
//! is not safe to unpack.

pub mod header;
pub mod pax;
pub mod reader;
pub mod writer;
