//! The host device. (To be built.)
