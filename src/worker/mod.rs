//! Child side: runs a job on a backend, a thread per rank or one for all. Knows nothing of files, oracle or verdicts.
pub mod job;
