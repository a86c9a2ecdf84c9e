//! Sizes, offsets and values of NCCL's interface on 64-bit Linux, as its documented releases have them.
use nccl_sys::*;
use std::mem::offset_of;

#[test]
fn the_configuration_is_laid_out_as_in_2_32() {
    assert_eq!((size_of::<ncclConfig_t>(), align_of::<ncclConfig_t>()), (120, 8));
    let offsets = [
        (offset_of!(ncclConfig_t, size), 0),
        (offset_of!(ncclConfig_t, magic), 8),
        (offset_of!(ncclConfig_t, version), 12),
        (offset_of!(ncclConfig_t, blocking), 16),
        (offset_of!(ncclConfig_t, cga_cluster_size), 20),
        (offset_of!(ncclConfig_t, min_ctas), 24),
        (offset_of!(ncclConfig_t, max_ctas), 28),
        (offset_of!(ncclConfig_t, net_name), 32),
        (offset_of!(ncclConfig_t, split_share), 40),
        (offset_of!(ncclConfig_t, traffic_class), 44),
        (offset_of!(ncclConfig_t, comm_name), 48),
        (offset_of!(ncclConfig_t, collnet_enable), 56),
        (offset_of!(ncclConfig_t, cta_policy), 60),
        (offset_of!(ncclConfig_t, shrink_share), 64),
        (offset_of!(ncclConfig_t, nvls_ctas), 68),
        (offset_of!(ncclConfig_t, n_channels_per_net_peer), 72),
        (offset_of!(ncclConfig_t, nvlink_centric_sched), 76),
        (offset_of!(ncclConfig_t, graph_usage_mode), 80),
        (offset_of!(ncclConfig_t, num_rma_ctx), 84),
        (offset_of!(ncclConfig_t, max_p2p_peers), 88),
        (offset_of!(ncclConfig_t, graph_stream_ordering), 92),
        (offset_of!(ncclConfig_t, launch_order_implicit), 96),
        (offset_of!(ncclConfig_t, num_rma_sig), 100),
        (offset_of!(ncclConfig_t, rma_eager_init), 104),
        (offset_of!(ncclConfig_t, host_cft_mode), 108),
        (offset_of!(ncclConfig_t, nvls_host_mode), 112),
    ];
    for (index, (is, should)) in offsets.into_iter().enumerate() {
        assert_eq!(is, should, "field {index}");
    }
    assert_eq!(ncclConfig_t::FIELDS.len() + 3, offsets.len(), "every field but the head's three has its release");
}

#[test]
fn each_release_gets_the_prefix_that_it_knows() {
    for (version, size) in [
        (21403, 24),
        (21605, 24),
        (21701, 40),
        (21803, 48),
        (22605, 48),
        (22705, 72),
        (22809, 80),
        (22907, 88),
        (23007, 96),
        (23102, 112),
        (23203, 120),
        (23301, 120),
    ] {
        let config = ncclConfig_t::unset(version);
        assert_eq!(config.size, size, "{version}");
        assert_eq!(config.magic, 0xcafe_beef);
        assert_eq!(config.version, version.min(23203), "a library must not expect fields that are not there");
    }
}

#[test]
fn nothing_is_set_in_a_fresh_configuration() {
    let config = ncclConfig_t::unset(23007);
    // SAFETY: a structure whose only padding is its last word (see the offsets above), read as the words before it.
    let words: [i32; 29] = unsafe { std::mem::transmute_copy(&config) };
    for (index, word) in words.into_iter().enumerate().skip(4) {
        let pointer = matches!(index, 8 | 9 | 12 | 13);
        assert_eq!(word, if pointer { 0 } else { i32::MIN }, "word {index}");
    }
}

#[test]
fn the_configuration_of_a_call_is_laid_out_as_in_2_32() {
    assert_eq!((size_of::<ncclCollConfig_t>(), align_of::<ncclCollConfig_t>()), (72, 8));
    let offsets = [
        (offset_of!(ncclCollConfig_t, size), 0),
        (offset_of!(ncclCollConfig_t, magic), 8),
        (offset_of!(ncclCollConfig_t, version), 12),
        (offset_of!(ncclCollConfig_t, ext), 16),
        (offset_of!(ncclCollConfig_t, min_ctas), 24),
        (offset_of!(ncclCollConfig_t, max_ctas), 28),
        (offset_of!(ncclCollConfig_t, nvls_ctas), 32),
        (offset_of!(ncclCollConfig_t, cga_cluster_size), 36),
        (offset_of!(ncclCollConfig_t, alg_selection), 40),
        (offset_of!(ncclCollConfig_t, force_alg_selection), 48),
        (offset_of!(ncclCollConfig_t, cta_policy), 52),
        (offset_of!(ncclCollConfig_t, user_profiler_tag), 56),
        (offset_of!(ncclCollConfig_t, launch_completion_event), 64),
    ];
    for (index, (is, should)) in offsets.into_iter().enumerate() {
        assert_eq!(is, should, "field {index}");
    }
    assert_eq!((size_of::<ncclConfigExt_t>(), offset_of!(ncclConfigExt_t, value)), (24, 16));
    let config = ncclCollConfig_t::unset(23102);
    assert_eq!((config.size, config.magic, config.version), (64, 0xcafe_beef, 23102));
    assert_eq!(ncclCollConfig_t::unset(29900).size, 72);
    // an unmet selection is an error by default; everything else is left to the library
    assert_eq!((config.force_alg_selection, config.user_profiler_tag), (1, 0));
    assert!(config.alg_selection.is_null() && config.ext.is_null() && config.launch_completion_event.is_null());
    let unset = [config.min_ctas, config.max_ctas, config.nvls_ctas, config.cga_cluster_size, config.cta_policy];
    assert_eq!(unset, [i32::MIN; 5]);
}

#[test]
fn the_properties_of_a_communicator_are_laid_out_as_in_2_31() {
    assert_eq!((size_of::<ncclCommProperties_t>(), align_of::<ncclCommProperties_t>()), (144, 8));
    let offsets = [
        (offset_of!(ncclCommProperties_t, rank), 16),
        (offset_of!(ncclCommProperties_t, n_ranks), 20),
        (offset_of!(ncclCommProperties_t, cuda_dev), 24),
        (offset_of!(ncclCommProperties_t, nvml_dev), 28),
        (offset_of!(ncclCommProperties_t, device_api_support), 32),
        (offset_of!(ncclCommProperties_t, multimem_support), 33),
        (offset_of!(ncclCommProperties_t, gin_type), 36),
        (offset_of!(ncclCommProperties_t, n_lsa_teams), 40),
        (offset_of!(ncclCommProperties_t, host_rma_support), 44),
        (offset_of!(ncclCommProperties_t, railed_gin_type), 48),
        (offset_of!(ncclCommProperties_t, comm_hash), 56),
        (offset_of!(ncclCommProperties_t, gin_min_stride), 64),
        (offset_of!(ncclCommProperties_t, gin_support), 72),
        (offset_of!(ncclCommProperties_t, dev_comm_runtime_version_size), 136),
    ];
    for (index, (is, should)) in offsets.into_iter().enumerate() {
        assert_eq!(is, should, "field {index}");
    }
    for (version, size) in [(22902, 40), (22907, 56), (23007, 56), (23102, 144), (23203, 144)] {
        assert_eq!(ncclCommProperties_t::unset(version).size, size, "{version}");
    }
    // a release with more properties is not led to believe that there is room for them
    assert!(ncclCommProperties_t::unset(23203).version < 23200);
}

#[test]
fn other_structures() {
    assert_eq!((size_of::<ncclEncryptionConfig_t>(), align_of::<ncclEncryptionConfig_t>()), (32, 8));
    assert_eq!((offset_of!(ncclEncryptionConfig_t, mode), offset_of!(ncclEncryptionConfig_t, psk)), (16, 24));
    assert_eq!((size_of::<ncclUniqueId>(), align_of::<ncclUniqueId>()), (128, 1));
    assert_eq!((size_of::<ncclSimInfo_t>(), align_of::<ncclSimInfo_t>()), (24, 8));
    assert_eq!(offset_of!(ncclSimInfo_t, magic), 8);
    assert_eq!(offset_of!(ncclSimInfo_t, version), 12);
    assert_eq!(offset_of!(ncclSimInfo_t, estimated_time), 16);
    let info = ncclSimInfo_t::unset(23007);
    assert_eq!((info.size, info.magic, info.version, info.estimated_time), (24, 0x7468_5283, 23007, -1.0));
    assert_eq!((size_of::<ncclWaitSignalDesc_t>(), align_of::<ncclWaitSignalDesc_t>()), (16, 4));
    assert_eq!(offset_of!(ncclWaitSignalDesc_t, op_cnt), 0);
    assert_eq!(offset_of!(ncclWaitSignalDesc_t, peer), 4);
    assert_eq!(offset_of!(ncclWaitSignalDesc_t, sig_idx), 8);
    assert_eq!(offset_of!(ncclWaitSignalDesc_t, ctx), 12);
    assert_eq!((size_of::<collspecTraffic_t>(), align_of::<collspecTraffic_t>()), (32, 8));
    assert_eq!((size_of::<collspecCensus_t>(), align_of::<collspecCensus_t>()), (24, 8));
    assert_eq!((size_of::<ncclResult_t>(), size_of::<ncclDataType_t>(), size_of::<ncclRedOp_t>()), (4, 4, 4));
    assert_eq!((size_of::<ncclScalarResidence_t>(), size_of::<ncclCommMemStat_t>()), (4, 4));
    assert_eq!((size_of::<ncclComm_t>(), size_of::<ncclWindow_t>(), size_of::<ncclParamHandle_t>()), (8, 8, 8));
}

#[test]
fn values_are_the_documented_ones() {
    use ncclDataType_t as T;
    let types = [T::Int8, T::Uint8, T::Int32, T::Uint32, T::Int64, T::Uint64, T::Float16, T::Float32, T::Float64];
    for (number, value) in types.into_iter().chain([T::Bfloat16, T::Float8e4m3, T::Float8e5m2]).enumerate() {
        assert_eq!(value.0, number as i32);
    }
    use ncclRedOp_t as O;
    assert_eq!([O::Sum, O::Prod, O::Max, O::Min, O::Avg].map(|op| op.0), [0, 1, 2, 3, 4]);
    use ncclResult_t as R;
    let results = [
        R::Success,
        R::UnhandledCudaError,
        R::SystemError,
        R::InternalError,
        R::InvalidArgument,
        R::InvalidUsage,
        R::RemoteError,
        R::InProgress,
        R::Timeout,
    ];
    assert_eq!(results.map(|code| code.0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(R::KNOWN.len(), 9);
    assert_eq!(R(77).name(), None);
    assert_eq!(format!("{:?}", R(77)), "ncclResult_t(77)");
    assert_eq!((ncclScalarResidence_t::Device.0, ncclScalarResidence_t::HostImmediate.0), (0, 1));
    assert_eq!(ncclCommMemStat_t::KNOWN.iter().map(|stat| stat.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!((NCCL_SPLIT_NOCOLOR, NCCL_SHRINK_ABORT, NCCL_SUSPEND_MEM, NCCL_WIN_COLL_SYMMETRIC), (-1, 1, 1, 1));
}

#[test]
fn every_symbol_has_a_release_and_stands_once() {
    let mut seen = std::collections::BTreeSet::new();
    for (name, since) in Nccl::SYMBOLS.iter().chain(Nccl::NAMED_ONLY) {
        assert!(seen.insert(name), "{name} stands twice");
        assert_eq!(*since == "-", name.starts_with("collspec"), "{name}");
        assert!(*since == "-" || release(since).is_some(), "{name} since {since}");
        assert!(*since == "-" || name.starts_with("nccl"), "{name}");
    }
    // 2.32.3 exports 97 functions, 2.30.7 the first 83 of them.
    let until = |version: i32| {
        let known = Nccl::SYMBOLS.iter().chain(Nccl::NAMED_ONLY);
        known.filter(|(_, since)| release(since).is_some_and(|code| code <= version)).count()
    };
    assert_eq!((until(23007), until(23203)), (83, 97));
}
