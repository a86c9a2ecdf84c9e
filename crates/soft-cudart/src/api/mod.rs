//! The runtime's functions.
