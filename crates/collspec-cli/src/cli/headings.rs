//! Headings of the help, by what the options concern.

pub const CASES: &str = "Which cases";
pub const BACKEND: &str = "What runs them";
pub const MANNER: &str = "How they run";
pub const MACHINES: &str = "Several processes or machines";
pub const SOFTWARE: &str = "The software library";
pub const LIMITS: &str = "Limits";
pub const REPORT: &str = "Report";
pub const FAULTS: &str = "Which faults and checkers";
pub const KERNELS: &str = "Kernels of a real library";
pub const REQUIRED: &str = "What must be caught";
