//! What a corpus would notice: the software library made wrong in every known way, and how other suites would fare.
pub mod peers;
