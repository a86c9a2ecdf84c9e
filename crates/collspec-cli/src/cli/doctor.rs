//! `collspec doctor`: the drivers, devices and libraries of this machine, and remedies for missing ones.
use super::args::DoctorArgs;
use super::backend_args::driver_request;
use super::exit::Exit;
use super::nccl::lacking_in_short;
use super::terminal;
use collspec_core::printable::one_line;
use collspec_run::backend::cuda::{DeviceInfo, DriverReport, DriverState};
use collspec_run::child::Workers;
use collspec_run::launch::{ChosenLauncher, Variables, detect};
use collspec_run::library::{FoundLibrary, LibraryInfo, find_libraries};
use collspec_run::run::gpus::{self, AskError};
use collspec_run::run::{Machine, machine::driver_text};
use collspec_suite::suite::backend::{DOCTOR, fetching_words};
use collspec_suite::suite::{
    BackendChoice, BackendMissing, BackendRequest, ChosenBackend, DriverRequest, skipped_for_functions,
};
use std::io::Write;
use std::path::{Path, PathBuf};

pub fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let workers = Workers::CurrentExe;
    let request = BackendRequest {
        nccl: args.place.nccl.clone(),
        driver: driver_request(args.place.driver.as_deref()),
        ..BackendRequest::default()
    };
    // The machine's driver is examined even though software GPUs would do.
    let gpus = request.driver.resolve(true).map(|driver| driver.devices(&workers, None));
    let libraries = find_libraries(&workers);
    // `nccl` is asked for to get the reason why it cannot be used.
    let nccl = BackendRequest { backend: BackendChoice::Nccl, ..request.clone() }.resolve(&workers);
    // Without a driver or devices the backend has not examined the library that is named.
    let named = if nccl.is_err() { request.named_library(&workers) } else { None };

    let mut lines = vec![format!("collspec {}", env!("CARGO_PKG_VERSION"))];
    lines.push(entry_line("launcher", &launcher_words(&Variables::of_this_process())));
    match &gpus {
        Ok(gpus) => driver_lines(gpus, &mut lines),
        Err(words) => lines.push(entry_line("driver", words)),
    }
    if let Ok(Ok(gpus)) = &gpus {
        device_lines(&gpus.devices, &mut lines);
    }
    if let (Some(spec), Some(named)) = (&args.place.nccl, &named) {
        lines.push(entry_line("--nccl", &named_library_line(spec, named)));
    }
    library_lines(&libraries, &nccl, &mut lines);
    match nccl {
        Ok(choice)
            if choice.backend.has_software_gpus()
                && request.nccl.is_none()
                && request.driver == DriverRequest::Auto =>
        {
            lines.push(entry_line("backend", SOFT_WORDS));
            let newest =
                newest(&libraries).map(|version| format!(": `collspec run --nccl {version}` takes the newest"));
            lines.push(entry_line(
                "",
                &format!("with --nccl, a real library on software GPUs{}", newest.unwrap_or_default()),
            ));
            lines.push(entry_line("skipped", SKIPPED_BY_SOFT));
        }
        Ok(choice) => {
            let machine = choice.machine.as_deref();
            lines.push(entry_line("backend", &format!("nccl: {}", machine.map(Machine::describe).unwrap_or_default())));
            lines.extend(machine.into_iter().flat_map(skipped).map(|words| entry_line("skipped", &words)));
        }
        Err(missing) => {
            lines.push(entry_line("backend", SOFT_WORDS));
            lines.push(entry_line("", &format!("not nccl: {}", missing.why().trim_end_matches(DOCTOR))));
            lines.push(entry_line("skipped", SKIPPED_BY_SOFT));
        }
    }
    let mut out = terminal::out();
    for line in lines {
        writeln!(out, "{}", one_line(&line))?;
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

const SKIPPED_BY_SOFT: &str = "cases that require the backend nccl, GPUs or a compute capability";
const SOFT_WORDS: &str = "soft: NCCL's interface in software runs every scenario that names no GPU";

fn entry_line(name: &str, words: &str) -> String {
    format!("{name:<10} {words}")
}

fn driver_lines(gpus: &Result<DriverReport, AskError>, lines: &mut Vec<String>) {
    match gpus {
        Ok(gpus) => {
            let words = match gpus.state {
                DriverState::Devices(_) => driver_text(gpus),
                _ => gpus.state.to_string(),
            };
            lines.push(entry_line("driver", &words));
            lines.extend(remedy(&gpus.state).map(|words| entry_line("", words)));
        }
        Err(error) => {
            lines.push(entry_line("driver", &error.to_string()));
            lines.push(entry_line("", "see whether `nvidia-smi` works; if not, the driver must be repaired first"));
        }
    }
}

/// Describes the launcher that started this program together with others, according to the environment.
fn launcher_words(variables: &Variables) -> String {
    let launch = match detect(variables, ChosenLauncher::Auto) {
        Ok(Some(launch)) => launch,
        Ok(None) => return "none: this process is alone".to_owned(),
        Err(error) => return error.to_string(),
    };
    let place = match &launch.place {
        Ok(place) => format!("they meet on {} at {}", place.hosts.join(", "), ports_in_words(&place.ports)),
        Err(why) => format!("they cannot meet: {why}"),
    };
    format!("{}: this process is {}; {place}", launch.launcher.name(), launch.position)
}

fn ports_in_words(ports: &[u16]) -> String {
    match ports {
        [only] => format!("port {only}"),
        [first, .., last] => format!("one of the ports {first} to {last}"),
        [] => "no port".to_owned(),
    }
}

/// The remedy for a driver that cannot be used.
fn remedy(state: &DriverState) -> Option<&'static str> {
    Some(match state {
        DriverState::Devices(_) | DriverState::Software(_) => return None,
        DriverState::NoDriver if gpus::are_likely() => {
            "the kernel has NVIDIA devices: make libcuda.so.1 visible (in a container: start it with its GPUs)"
        }
        DriverState::NoDriver => "without an NVIDIA GPU nothing is wrong; with one, install NVIDIA's driver",
        DriverState::Incomplete(_) => "install a driver for CUDA 12 or later",
        // CUDA_ERROR_STUB_LIBRARY
        DriverState::Driver(34, _) => "a toolkit's stub of libcuda is found first: take its folder off LD_LIBRARY_PATH",
        // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        DriverState::Driver(803, _) => "library and kernel module of the driver differ: reboot, or match them",
        DriverState::Driver(..) => "see what `nvidia-smi` says; the kernel's log may say more",
        DriverState::NoDevices => "is CUDA_VISIBLE_DEVICES empty, or was a container started without its GPUs?",
    })
}

fn device_lines(devices: &[DeviceInfo], lines: &mut Vec<String>) {
    for (number, device) in devices.iter().enumerate().filter(|(_, device)| !device.bus.is_empty()) {
        let DeviceInfo { name, compute: (major, minor), uuid, bus, .. } = device;
        let memory = device.memory as f64 / f64::from(1 << 30);
        let words = format!("{number}: {name}, compute {major}.{minor}, {memory:.1} GiB, {uuid}, at {bus}");
        lines.push(entry_line(if number == 0 { "devices" } else { "" }, &words));
    }
    if devices.len() > 1 {
        lines.push(entry_line("topology", &topology(devices)));
    }
}

/// The devices that reach each other's memory.
fn topology(devices: &[DeviceInfo]) -> String {
    if devices.iter().all(|device| device.reaches.len() + 1 == devices.len()) {
        return "every device reaches the memory of every other directly".into();
    }
    if devices.iter().all(|device| device.reaches.is_empty()) {
        return "no device reaches the memory of another directly".into();
    }
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let one = |(number, device): (usize, &DeviceInfo)| match device.reaches.as_slice() {
        [] => format!("{number} reaches none"),
        others => format!("{number} reaches {}", list(others)),
    };
    devices.iter().enumerate().map(one).collect::<Vec<_>>().join("; ")
}

fn usable(probed: &LibraryInfo, path: &Path) -> String {
    let slimmed = if probed.slimmed { ", slimmed" } else { "" };
    format!(
        "{} {}, {}{slimmed}: {}",
        probed.version_text(),
        path.display(),
        probed.maker.words(),
        lacking_in_short(probed)
    )
}

/// The library that was named, where no backend uses it.
fn named_library_line(spec: &str, named: &Result<(PathBuf, LibraryInfo), String>) -> String {
    match named {
        Ok((path, probed)) => usable(probed, path),
        Err(why) if why.starts_with(spec) => format!("unusable: {why}"),
        Err(why) => format!("unusable {spec}: {why}"),
    }
}

/// The libraries that were found, and the one that will run if it is not one of them.
fn library_lines(libraries: &[FoundLibrary], nccl: &Result<ChosenBackend, BackendMissing>, lines: &mut Vec<String>) {
    let named = nccl.as_ref().ok().and_then(|choice| choice.machine.as_deref());
    let named = named.filter(|machine| libraries.iter().all(|found| found.path != machine.library));
    let named = named.map(|machine| usable(&machine.probed, &machine.library));
    let found = libraries.iter().map(|library| match &library.probed {
        Ok(probed) => usable(probed, &library.path),
        Err(error) => format!("unusable {}: {error}", library.path.display()),
    });
    let all: Vec<String> = named.into_iter().chain(found).collect();
    if all.is_empty() {
        lines.push(entry_line("libraries", "none was found"));
        let cure = format!("{}, which runs without a GPU too; --nccl PATH names one", fetching_words());
        lines.push(entry_line("", &cure));
    }
    lines.extend(all.iter().enumerate().map(|(n, words)| entry_line(if n == 0 { "libraries" } else { "" }, words)));
}

/// The version of the newest library that can be used.
fn newest(libraries: &[FoundLibrary]) -> Option<String> {
    let usable = libraries.iter().filter_map(|library| library.probed.as_ref().ok());
    usable.max_by_key(|probed| probed.version).map(LibraryInfo::version_text)
}

/// The cases that this machine and library cannot run.
fn skipped(machine: &Machine) -> Vec<String> {
    let mut words = Vec::new();
    let there = machine.gpus.devices.len();
    words.push(format!(
        "cases of more than {there} rank{}; with --ranks-per-gpu auto they share GPUs",
        if there == 1 { "" } else { "s" }
    ));
    let least = machine.gpus.devices.iter().map(|device| device.compute).min().unwrap_or_default();
    if least < (9, 0) {
        words.push(format!(
            "reductions of 8-bit floats: they need compute capability 9.0, this machine has {}.{}",
            least.0, least.1
        ));
    }
    words.extend(skipped_for_functions(&machine.probed));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topology_in_words() {
        let devices = |reaches: &[&[usize]]| -> Vec<DeviceInfo> {
            reaches.iter().map(|to| DeviceInfo { reaches: to.to_vec(), ..DeviceInfo::default() }).collect()
        };
        assert_eq!(topology(&devices(&[&[1], &[0]])), "every device reaches the memory of every other directly");
        assert_eq!(topology(&devices(&[&[], &[]])), "no device reaches the memory of another directly");
        assert_eq!(topology(&devices(&[&[1], &[0], &[]])), "0 reaches 1; 1 reaches 0; 2 reaches none");
    }

    #[test]
    fn every_state_without_devices_has_a_remedy() {
        use DriverState::*;
        for state in
            [NoDriver, Incomplete("cuInit".into()), Driver(34, "STUB".into()), Driver(999, "?".into()), NoDevices]
        {
            assert!(remedy(&state).is_some(), "{state}");
        }
        assert!(remedy(&Devices(1)).is_none());
    }
}
