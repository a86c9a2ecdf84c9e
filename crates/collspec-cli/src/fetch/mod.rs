//! Fetches NCCL libraries, and reads facts from their files.
mod download;
pub mod elf;
mod library;
mod slim;
mod wheel;
mod work_folder;

pub use download::Progress as DownloadProgress;
pub use library::{FetchError, fetch, is_version};
pub use slim::Kept;
