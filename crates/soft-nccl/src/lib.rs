//! NCCL in software. (To be built.)
