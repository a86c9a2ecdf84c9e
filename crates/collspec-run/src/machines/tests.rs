use super::*;

fn wrong(name: &str, text: &str) -> String {
    let path = Path::new(name);
    let made = if name.ends_with(".xml") {
        MachineProfile::of_topology(name, path, text)
    } else {
        MachineProfile::of_profile(name, path, text)
    };
    made.unwrap_err().to_string()
}

#[test]
fn every_profile_is_a_machine_that_says_where_its_facts_come_from() {
    let machines = MachineProfile::all();
    assert_eq!(machines.len(), PROFILES.len());
    for machine in machines {
        assert!(machine.sources.iter().all(|source| source.starts_with("https://")), "{}", machine.name);
        assert!(!machine.sources.is_empty(), "{}", machine.name);
        // What was made of a profile can be read as what it is.
        let again = MachineProfile::of_topology(&machine.name, Path::new("again.xml"), &machine.topology()).unwrap();
        assert_eq!((&again.gpus, &again.nics), (&machine.gpus, &machine.nics));
        assert_eq!((again.capability, again.topology()), (machine.capability, machine.topology()));
        assert_eq!(again.left_out, Vec::<String>::new());
    }
}

#[test]
fn a_dgx_h100_has_the_links_and_adapters_of_one() {
    let machine = MachineProfile::find("dgx-h100").unwrap();
    assert_eq!((machine.gpus.len(), machine.nics.len(), machine.nvlinks()), (8, 8, 18));
    assert_eq!(machine.summary(), "8 x NVIDIA H100 80GB HBM3 (9.0), 18 NVLinks each, 8 x 400 Gb/s InfiniBand");
    let topology = machine.topology();
    assert_eq!(topology.matches("count=\"5\"").count(), 16, "two of the four switches have five links of each GPU");
    assert!(machine.description().contains(";nics=mlx5_0@0000:80:00.0@400@ib,mlx5_1@"), "{}", machine.description());
}

#[test]
fn a_tray_of_a_rack_says_how_many_its_nvlinks_join() {
    let machine = MachineProfile::find("gb200-nvl72").unwrap();
    assert_eq!((machine.gpus.len(), machine.nics.len(), machine.nvlinks(), machine.joined_nodes), (4, 4, 18, 18));
    let summary = "4 x NVIDIA GB200 (10.0), 18 NVLinks each, which join 18 nodes, 4 x 400 Gb/s InfiniBand";
    assert_eq!(machine.summary(), summary);
    let topology = machine.topology();
    assert!(topology.contains("arch=\"arm64\"") && topology.contains("<c2c bw=\"225000\""), "{topology}");
    let (_, text) = PROFILES.iter().find(|(name, _)| *name == "gb200-nvl72").unwrap();
    for (nodes, words) in
        [("nodes = 0", "1 to 576 GPUs"), ("nodes = 145", "1 to 576 GPUs"), ("nodes = -1", "m.toml:19")]
    {
        let told = wrong("m.toml", &text.replacen("nodes = 18", nodes, 1));
        assert!(told.contains(words), "{nodes}: {told}");
    }
    assert!(MachineProfile::all().iter().all(|other| (other.joined_nodes > 1) == (other.name == "gb200-nvl72")));
}

#[test]
fn a_name_that_no_machine_has_is_an_error_with_the_nearest_one() {
    let words = MachineProfile::find("dgx-h1000").unwrap_err().to_string();
    assert!(words.contains("did you mean dgx-h100?") && words.contains("workstation"), "{words}");
    let words = MachineProfile::find("/nowhere/topo.xml").unwrap_err().to_string();
    assert!(words.starts_with("/nowhere/topo.xml: No such file"), "{words}");
}

/// What a run on one GPU of two writes: ranks, what to keep, hashes.
const DUMP: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="000003ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:1b:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1D:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:1e:00.1" class="0x020700"><nic>
        <net name="mlx5_4" dev="3" speed="400000" port="1" guid="0x1234567890abcdef" gdr="1" keep="1"/></nic></pci>
      <new busid="?"><gpu/></new>
    </pci>
    <pci busid="0000:3d:00.0" class="0x030200"><gpu dev="0" sm="90" rank="1" gdr="1"/></pci>
    <nic><net name="eth0" dev="0" speed="10000" guid="0x0"/></nic>
  </cpu>
</system>
"#;

#[test]
fn a_file_that_nccl_wrote_is_a_machine_without_what_is_of_one_run() {
    let machine = MachineProfile::of_topology("t.xml", Path::new("t.xml"), DUMP).unwrap();
    let gpu = |bus: &str, nvlinks| Gpu { bus: bus.to_owned(), nvlinks, gpudirect: true };
    assert_eq!(machine.gpus, [gpu("0000:1d:00.0", 18), gpu("0000:3d:00.0", 0)]);
    let nic = Nic { name: "mlx5_4".into(), bus: "0000:1e:00.1".into(), speed: 400, link: LinkLayer::InfiniBand };
    assert_eq!(machine.nics, [nic]);
    assert_eq!(machine.left_out, ["line 9: <new>"]);
    let topology = machine.topology();
    for of_a_run in ["rank=", "keep=", "guid=", "host_hash=", "000003ff", "<new"] {
        assert!(!topology.contains(of_a_run), "{of_a_run} in {topology}");
    }
    assert!(topology.contains("<gpu dev=\"1\""), "{topology}");
}

#[test]
fn what_contradicts_itself_is_an_error_with_its_line() {
    let with = |from: &str, to: &str| wrong("t.xml", &DUMP.replacen(from, to, 1));
    for (from, to, words) in [
        ("0000:3d:00.0", "0000:1d:00.0", "t.xml:11: 0000:1d:00.0 is there already, in line 4"),
        ("0000:3d:00.0", "3d", "t.xml:11: busid=\"3d\" is not a PCI address"),
        ("sm=\"90\" rank=\"1\"", "sm=\"80\"", "t.xml:11: sm=80, and the GPU before it has 90"),
        ("sm=\"90\" rank=\"1\"", "", "t.xml:11: <gpu> has no sm"),
        ("count=\"18\"", "count=\"-1\"", "t.xml:5: a GPU has at most 18 NVLinks"),
        ("mlx5_4", "mlx5;4", "t.xml:8: name=\"mlx5;4\""),
        ("speed=\"400000\"", "speed=\"fast\"", "t.xml:8: speed=\"fast\" is not a number"),
        ("</system>", "", "the file ends within an element"),
        ("</cpu>", "</pci>", "t.xml:1"),
        (" arch=\"x86_64\"", "", "t.xml:2: <cpu> has no arch"),
        ("<system version=\"1\">", "<system><system></system>", "t.xml:1: <system> cannot be here"),
    ] {
        let told = with(from, to);
        assert!(told.contains(words), "{to}: {told}");
    }
    assert!(wrong("t.xml", "").contains("there is no <system>"));
    assert!(wrong("t.xml", "<system/>").contains("there is no <gpu>"));
    let deep = "<system>".to_owned() + &"<pci busid=\"0000:00:00.0\">".repeat(100);
    assert!(wrong("t.xml", &deep).contains("more than 32 elements in each other"));
    let long = DUMP.replacen("mlx5_4", &"x".repeat(300), 1);
    assert!(wrong("t.xml", &long).contains("at most 250 bytes"));

    let (_, profile) = PROFILES[1];
    let with = |from: &str, to: &str| wrong("m.toml", &profile.replacen(from, to, 1));
    for (from, to, words) in [
        ("links = 18", "links = 19", "m.toml:15: a GPU has 1 to 18 NVLinks"),
        ("switches = 4", "switches = 40", "m.toml:16: a GPU has a link to each switch"),
        ("\"9.0\"", "\"H100\"", "m.toml:9: expected a compute capability"),
        ("speed = 400", "speed = 401", "m.toml:25: expected 10, 25"),
        ("vendor = \"GenuineIntel\"\n", "", "m.toml:19: an x86_64 has"),
        ("gpus = 1", "gpus = 99", "expected 1 to 32 GPUs; there are 106"),
        ("[nic]\nspeed = 400\nlink_layer = \"InfiniBand\"\n", "", "network adapters need a [nic]"),
        ("name =", "nam =", "unknown field `nam`"),
        ("title", "[[title", "m.toml:1"),
    ] {
        let told = with(from, to);
        assert!(told.contains(words), "{to}: {told}");
    }
}

#[test]
fn any_bytes_are_a_machine_or_an_error() {
    let mut random = 1u64;
    for _ in 0..2000 {
        let mut bytes = DUMP.as_bytes().to_vec();
        for _ in 0..8 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] = b"<>/\"= a0&\n"[(random >> 20) as usize % 10];
        }
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(machine) = MachineProfile::of_topology("t.xml", Path::new("t.xml"), &text) {
            assert!(!machine.gpus.is_empty());
            MachineProfile::of_topology("t.xml", Path::new("t.xml"), &machine.topology()).unwrap();
        }
    }
}
