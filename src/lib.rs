//! The native engine of Paperclip's CreateOS sandbox provider.
pub mod error;
