//! Who holds which sandbox: [`registry`] knows what runs on a lease and whether it may be used, [`provider`] executes,
//! releases and shuts down by it.

pub mod provider;
pub mod registry;
