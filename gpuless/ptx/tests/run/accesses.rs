//! Tests which accesses to memory are allowed, and which space an address belongs to.

use crate::device::Device;

/// A kernel with an array, and registers for its lines.
fn kernel(lines: &str) -> String {
    format!(
        ".const .align 8 .u64 constant = 5;\n.global .align 8 .u64 variable = 6;\n.shared .align 16 .b8 fixed[64];\n\
         .visible .entry k(.param .u64 m, .param .u64 second)\n{{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n\
         .local .b64 own;\nld.param.u64 %d1, [m];\nmov.u32 %r1, fixed;\n{lines}\nret;\n}}\n"
    )
}

#[test]
fn shared_accesses_stay_in_the_shared_memory_of_the_block() {
    // The array's address, counted from the start of shared memory.
    let far = "mov.u64 %d2, fixed;\ncvta.shared.u64 %d3, %d2;\nsub.s64 %d4, %d1, %d3;\nadd.s64 %d4, %d4, %d2;\n";
    for (line, what) in [
        ("st.shared.u32 [%d4], 7;", "writes 4 bytes at 0x"),
        ("ld.shared.u32 %r2, [%d4];", "reads 4 bytes at 0x"),
        ("ld.shared.v4.u8 {%h1, %h2, %h3, %h4}, [%d4];", "reads 4 bytes at 0x"),
        ("st.shared.u8 [%d4], 7;", "writes 1 bytes at 0x"),
        ("atom.shared.add.u32 %r2, [%d4], 1;", "changes 4 bytes at 0x"),
        ("mbarrier.init.shared.b64 [%d4], 1;", "writes 8 bytes at 0x"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%d4], 16;", "reads 16 bytes at 0x"),
        // 64 bytes of the kernel's, and 256 that the launch asks for.
        ("st.shared.u32 [%r1+320], 7;", "writes 4 bytes at 0x140"),
        ("st.shared.u64 [fixed+308], 7;", "a misaligned address"),
        ("st.shared.u32 [-4], 7;", "writes 4 bytes at 0xfffffffffffffffc"),
    ] {
        let mut device = Device::new(&kernel(&format!("{far}{line}")));
        let memory = device.array(&[0; 8]);
        let error = device.run("k", 1, 1, &[memory, 0], 1).unwrap_err().to_string();
        assert!(error.contains(what), "{line}: {error}");
        let outside = error.ends_with(", an address outside of the block's shared memory");
        assert!(outside || what == "a misaligned address", "{line}: {error}");
        assert_eq!(device.values(0), [0; 8], "{line}");
    }
    let mut device =
        Device::new(&kernel("st.shared.u32 [%r1+316], 7;\nld.shared.u32 %r2, [%r1+316];\nst.global.u32 [%d1], %r2;"));
    let memory = device.array(&[0; 4]);
    device.run("k", 1, 1, &[memory, 0], 1).unwrap();
    assert_eq!(device.values(0)[0], 7);
}

#[test]
fn vectors_are_aligned_as_a_whole_and_written_as_a_whole() {
    for line in [
        "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d1+2];",
        "ld.global.v2.u8 {%h1, %h2}, [%d1+1];",
        "ld.global.v2.u8 {%r1, %r2}, [%d1+1];",
        "st.global.v4.u8 [%d1+2], {%h1, %h2, %h3, %h4};",
        "st.global.v4.u16 [%d1+4], {%r2, %r3, %r4, %r5};",
    ] {
        let mut device = Device::new(&kernel(line));
        let memory = device.array(&[0; 4]);
        let error = device.run("k", 1, 1, &[memory, 0], 1).unwrap_err().to_string();
        assert!(error.ends_with("a misaligned address"), "{line}: {error}");
    }
    // The array has 20 bytes.
    let mut device = Device::new(&kernel("mov.b32 %r2, 7;\nst.global.v4.u16 [%d1+16], {%r2, %r2, %r2, %r2};"));
    let memory = device.array(&[0; 5]);
    let error = device.run("k", 1, 1, &[memory, 0], 1).unwrap_err().to_string();
    assert!(error.contains("writes 8 bytes"), "{error}");
    assert_eq!(device.values(0)[4], 0);
}

#[test]
fn an_address_is_in_one_space_and_parameters_are_also_global() {
    // Bits for const, global, local, shared and param.
    let spaces = ["const", "global", "local", "shared", "param::entry"];
    let of = |space: &str, name: &str| {
        let mut lines = format!("mov.u64 %d2, {name};\ncvta.{space}.u64 %d2, %d2;\nmov.b32 %r2, 0;\n");
        for (bit, space) in spaces.iter().enumerate() {
            lines += &format!("isspacep.{space} %p1, %d2;\n@%p1 or.b32 %r2, %r2, {};\n", 1 << bit);
        }
        lines
    };
    let cases = [
        ("const", "constant", 1),
        ("global", "variable", 2),
        ("local", "own", 4),
        ("shared", "fixed", 8),
        ("param", "second", 18),
    ];
    for (space, name, bits) in cases {
        let mut device = Device::new(&kernel(&format!("{}st.global.u32 [%d1], %r2;", of(space, name))));
        let memory = device.array(&[0; 4]);
        device.run("k", 1, 1, &[memory, 0], 1).unwrap();
        assert_eq!(device.values(0)[0], bits, "{name}");
    }
}

#[test]
fn bulk_copies_have_offsets_in_their_addresses() {
    let lines = "mbarrier.init.shared.b64 [%r1+48], 1;\nmbarrier.arrive.expect_tx.shared.b64 %d2, [fixed+48], 16;\n\
        add.s64 %d3, %d1, 32;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+16], [%d3+-16], 16, [%r1+48];\n\
        POLL:\nmbarrier.try_wait.shared.b64 %p2, [%r1+48], %d2;\n@!%p2 bra POLL;\n\
        cp.async.bulk.global.shared::cta.bulk_group [%d1+32], [fixed+16], 16;";
    let mut device = Device::new(&kernel(lines));
    let memory = device.array(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    device.run("k", 1, 1, &[memory, 0], 1).unwrap();
    assert_eq!(device.values(0), [0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7]);
}
