//! A communicator's configuration as NCCL's structure.
use super::CallError;
use crate::ops::ConfigValue;
use nccl_sys::{ncclConfig_t, release};
use std::ffi::{CString, c_int, c_uint};

/// The structure and the texts that it points to.
pub(super) struct CommConfig {
    inner: ncclConfig_t,
    _texts: Vec<CString>,
}

impl CommConfig {
    /// A configuration with these fields; all others stay unset.
    ///
    /// # Errors
    ///
    /// A field that NCCL does not have, or a value that does not fit it.
    pub fn new(version: i32, fields: &[(String, ConfigValue)]) -> Result<Self, CallError> {
        let mut inner = ncclConfig_t::unset(c_uint::try_from(version).unwrap_or(0));
        let mut texts = Vec::new();
        for (name, value) in fields {
            let wrong = |why| CallError::Config { field: name.clone(), why };
            // An older library would not look at the field: the case would test something else than it says.
            let since = ncclConfig_t::FIELDS.iter().find(|(field, _)| field == name).and_then(|(_, at)| release(at));
            if since.is_some_and(|code| version < code) {
                return Err(wrong("this release of NCCL does not have it yet"));
            }
            let number = match name.as_str() {
                "blocking" => Some(&mut inner.blocking),
                "cgaClusterSize" => Some(&mut inner.cga_cluster_size),
                "minCTAs" => Some(&mut inner.min_ctas),
                "maxCTAs" => Some(&mut inner.max_ctas),
                "splitShare" => Some(&mut inner.split_share),
                "trafficClass" => Some(&mut inner.traffic_class),
                "collnetEnable" => Some(&mut inner.collnet_enable),
                "CTAPolicy" => Some(&mut inner.cta_policy),
                "shrinkShare" => Some(&mut inner.shrink_share),
                "nvlsCTAs" => Some(&mut inner.nvls_ctas),
                "nChannelsPerNetPeer" => Some(&mut inner.n_channels_per_net_peer),
                "nvlinkCentricSched" => Some(&mut inner.nvlink_centric_sched),
                "graphUsageMode" => Some(&mut inner.graph_usage_mode),
                "numRmaCtx" => Some(&mut inner.num_rma_ctx),
                "maxP2pPeers" => Some(&mut inner.max_p2p_peers),
                "graphStreamOrdering" => Some(&mut inner.graph_stream_ordering),
                _ => None,
            };
            match (number, value) {
                (Some(field), ConfigValue::Int(v)) => {
                    *field = c_int::try_from(*v).map_err(|_| wrong("out of range"))?
                }
                (Some(_), ConfigValue::Text(_)) => return Err(wrong("a number is wanted")),
                (None, value) => {
                    let field = match name.as_str() {
                        "netName" => &mut inner.net_name,
                        "commName" => &mut inner.comm_name,
                        _ => return Err(wrong("unknown")),
                    };
                    let ConfigValue::Text(text) = value else { return Err(wrong("a text is wanted")) };
                    let text = CString::new(text.as_str()).map_err(|_| wrong("a text without zero bytes is wanted"))?;
                    *field = text.as_ptr();
                    texts.push(text);
                }
            }
        }
        Ok(Self { inner, _texts: texts })
    }

    pub fn as_mut(&mut self) -> *mut ncclConfig_t {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_by_name_and_others_stay_unset() {
        let fields =
            [("minCTAs".to_owned(), ConfigValue::Int(2)), ("commName".to_owned(), ConfigValue::Text("a".into()))];
        let config = CommConfig::new(23007, &fields).unwrap();
        assert_eq!(config.inner.min_ctas, 2);
        assert_eq!(config.inner.max_ctas, nccl_sys::NCCL_CONFIG_UNDEF_INT);
        assert!(!config.inner.comm_name.is_null() && config.inner.net_name.is_null());
    }

    #[test]
    fn every_field_of_nccls_can_be_set() {
        for (name, _) in ncclConfig_t::FIELDS {
            let text = matches!(*name, "netName" | "commName");
            let value = if text { ConfigValue::Text("a".into()) } else { ConfigValue::Int(1) };
            assert!(CommConfig::new(23007, &[((*name).to_owned(), value)]).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (name, value) in [
            ("minCTAs", ConfigValue::Int(1 << 40)),
            ("minCTAs", ConfigValue::Text("2".into())),
            ("netName", ConfigValue::Int(1)),
            ("nonsense", ConfigValue::Int(1)),
            ("nChannelsPerNetPeer", ConfigValue::Int(1)),
        ] {
            let error = CommConfig::new(22705, &[(name.to_owned(), value)]).err().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
