//! Attaching to a loaded library: its calls of the CUDA runtime come here.
