//! The fat binaries of a library: the PTX that it carries.
