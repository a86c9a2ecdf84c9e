//! (To be built.)
