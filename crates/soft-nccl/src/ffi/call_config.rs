//! The configuration of one call.
#![allow(unsafe_code)] // a configuration of the caller is read

use crate::algo::Selection;
use crate::failure::{Failure, Outcome};
use crate::op::Kind;
use nccl_sys::{NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, NCCL_CTA_POLICY_ZERO, ncclCollConfig_t};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::offset_of;

/// The settings of a call besides its arguments. Thread blocks, tags and the event are read but make no difference.
pub(super) struct CallConfig {
    selection: String,
    forced: bool,
}

impl CallConfig {
    /// Reads and checks a configuration, as NCCL does before it looks at the communicator; `None` for a null pointer.
    ///
    /// # Safety
    /// `config` is null, or points to the number of readable bytes that its first field says, and to a text if it has one.
    pub(super) unsafe fn read(config: *const ncclCollConfig_t) -> Outcome<Option<Self>> {
        if config.is_null() {
            return Ok(None);
        }
        // SAFETY: every caller provides the first field.
        let size = unsafe { config.cast::<usize>().read_unaligned() };
        let least = ncclCollConfig_t::size_in(23100);
        if size < least {
            return Err(Failure::argument(format!(
                "a call's configuration of {size} bytes is too small: it has {least}"
            )));
        }
        let magic_at = offset_of!(ncclCollConfig_t, magic);
        // SAFETY: inside the size that the structure names.
        let magic = unsafe { config.byte_add(magic_at).cast::<c_uint>().read_unaligned() };
        if magic != NCCL_CONFIG_MAGIC {
            return Err(Failure::argument("a call's configuration was not initialised"));
        }
        let mut own = ncclCollConfig_t::unset(0);
        let known = size.min(size_of::<ncclCollConfig_t>());
        // SAFETY: `known` bytes are readable there and writable here; every bit pattern is a valid configuration.
        unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut own).cast::<u8>(), known) };
        let within = |value: c_int, most: c_int, name: &str| {
            let fine = (0..=most).contains(&value);
            let why = || Failure::argument(format!("{name} of a call's configuration is {value}, not in 0..={most}"));
            if fine { Ok(()) } else { Err(why()) }
        };
        within(own.force_alg_selection, 1, "forceAlgSelection")?;
        if own.cta_policy != NCCL_CONFIG_UNDEF_INT {
            within(own.cta_policy, NCCL_CTA_POLICY_ZERO | 1, "CTAPolicy")?;
        }
        // SAFETY: the caller makes the same promise.
        let selection = unsafe { text(own.alg_selection) };
        Ok(Some(Self { selection, forced: own.force_alg_selection == 1 }))
    }

    /// The algorithms that the call allows; `None` if the library chooses, as it does for a call without elements.
    pub(super) fn selection(&self, kind: Kind, count: usize) -> Outcome<Option<Selection>> {
        if self.selection.is_empty() || count == 0 {
            return Ok(None);
        }
        match Selection::parse(&self.selection, kind, self.forced) {
            Ok(selection) => Ok(Some(selection)),
            Err(why) if self.forced => Err(Failure::argument(why)),
            Err(_) => Ok(None),
        }
    }
}

/// # Safety
/// `text` is null or a text with its end.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller makes the same promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
