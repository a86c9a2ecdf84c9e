//! What a build without software GPUs, and so without an interpreter of PTX, has in their place.
use super::cuda::DriverReport;
use crate::job::{ExecutedFunction, Kernels, MachineFault, MachineReport, Variation, Work};
use nccl_sys::Nccl;
use std::path::Path;

/// The variable with a description of the devices.
pub const DESCRIPTION: &str = "COLLSPEC_SOFTWARE_MACHINE";

/// This build has no software GPUs.
#[derive(Debug, thiserror::Error)]
#[error("this program was built without software GPUs (the feature `software-gpus` of the crate collspec)")]
pub struct SoftwareGpuError;

/// This build has no software GPUs.
///
/// # Errors
///
/// Always.
pub fn device_count(_: Option<&str>) -> Result<usize, SoftwareGpuError> {
    Err(SoftwareGpuError)
}

/// Checks nothing: this build has no software GPUs.
///
/// # Errors
///
/// Always.
pub fn check_variables(_: Option<&str>) -> Result<(), SoftwareGpuError> {
    Err(SoftwareGpuError)
}

/// Always 0, because this build has no software GPUs.
pub fn nvlinks() -> u32 {
    0
}

/// Reports nothing.
///
/// # Errors
///
/// Always.
pub fn report(_: Option<&str>) -> Result<DriverReport, SoftwareGpuError> {
    Err(SoftwareGpuError)
}

/// Checks nothing.
///
/// # Errors
///
/// Always.
pub fn check(_: &Path) -> Result<(), SoftwareGpuError> {
    Err(SoftwareGpuError)
}

/// False: the library is not looked at.
pub fn is_slimmed(_: &Path) -> bool {
    false
}

/// Loads nothing.
///
/// # Errors
///
/// Always.
pub fn load(_: &Path) -> Result<Nccl, SoftwareGpuError> {
    Err(SoftwareGpuError)
}

/// Nothing: no kernel runs.
pub fn failure(_: usize) -> Option<String> {
    None
}

/// This build has no software GPUs, so the answer is always `None`.
pub fn refusal() -> Option<String> {
    None
}

/// This build has no software GPUs, so there is nothing to do.
pub fn forget_refusals() {}

/// No work: no kernel runs.
pub fn work(_: usize) -> Work {
    Work::default()
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn schedule(_: u64, _: &Variation) -> Result<(), SoftwareGpuError> {
    Ok(())
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn disturb(_: Option<(MachineFault, usize)>) -> Result<(), SoftwareGpuError> {
    Ok(())
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn leave_alone() -> Result<(), SoftwareGpuError> {
    Ok(())
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn alter_kernels(_: Option<Kernels>) -> Result<(), SoftwareGpuError> {
    Ok(())
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn executed() -> Result<Vec<ExecutedFunction>, SoftwareGpuError> {
    Ok(Vec::new())
}

/// Nothing: no kernel runs.
///
/// # Errors
///
/// Never.
pub fn reached() -> Result<Vec<u64>, SoftwareGpuError> {
    Ok(Vec::new())
}

/// Nothing: no kernel runs.
pub fn disturbed() -> MachineReport {
    MachineReport::default()
}

/// Nothing: no kernel runs.
pub fn standstill() -> Option<(usize, u64)> {
    None
}
