//! Measures what each case reaches in NCCL's releases, and chooses few cases that together reach what all do.
//!
//! Every case runs on software GPUs with each library, and makes new communicators. Meanwhile the instructions that kernels execute are
//! noted, and the functions of host code that are entered. What the same cases reach counts as one thing: the instructions of a straight piece
//! of code are worth no more than one. In addition every file occurs, and every operation with each type, reduction, number of
//! ranks and so on, because right values may come from code that is reached with wrong ones as well.
mod choose;
mod measure;
mod table;

pub use choose::choose;
pub use measure::measure;
pub use table::{write_coverage, write_table};
