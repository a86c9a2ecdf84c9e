//! The contents of memory: images that repeat, are filled by a rule or are held byte by byte; poison; blocks of images.
pub mod blocks;
pub mod contents;
pub mod held;
pub mod poison;
