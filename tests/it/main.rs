//! Tests of the whole: the library and the command as their users meet them. Each module holds one thing true.

// Rooms import only what docs/architecture.md allows, and `unsafe` stands only where it says.
mod architecture;
// The audit of a corpus reports which faults its scenarios catch.
mod audit;
// A case fails at the rank and element where a number of its `expect` was changed.
mod changed_expectations;
// Cases of one run get the verdicts that they get alone.
mod cases_in_a_row;
// `collspec bench` times operations, verifies them and writes what nccl-tests' readers expect.
mod bench;
// The command gives the exit codes, reports and messages that people and scripts rely on.
mod command;
// NCCL_COMM_ID reaches ranks only where a scenario sets it.
mod comm_id;
// Paths, selections and shares that are typed mean what the help says.
mod command_line;
// Links in the documents lead somewhere, and figures are those of the code and the corpus.
mod documents;
// `collspec explain` shows what a case does, and the pictures of the documents are its own.
mod explain;
// Each fault of the software library on demand fails a scenario that passes without it.
mod faults;
// What newcomers write, and the recorded answers.
mod first_hour;
// Every form of a case comes out alike, and a form that does not is reported.
mod forms;
// docs/from-torch.md shows the scenarios that run, and steps of the language.
mod from_torch;
// Random programs pass on a sound library, and random files are refused at a place or run.
mod fuzz;
// `collspec gpu` gives programs a driver, and replaces the CUDA runtimes that they load.
mod gpu;
// Scenario files with hostile numbers are refused at a place or run.
mod hostile_numbers;
// Logs and dumps become scenarios that run as their origin did.
mod import;
// What a command reads it does not overwrite, and what it cannot write is an error.
mod inputs_and_outputs;
// A killed process costs one case, and no process or file outlives the command.
mod killed_processes;
// What a job could not run because some of its processes ended has no verdict.
mod lost_processes;
// Large buffers are judged where the library left them as if they had been copied.
mod large_memory;
// No small file can ask for more memory or work than the limits allow.
mod limits;
// Files that are no scenarios get the recorded messages.
mod malformed_files;
// Faults of the machine strike a real library as their kinds say.
mod machine_faults;
// Any bytes are refused at a place or run.
mod malformed_texts;
// No case fails on a library that computes in another way that NCCL allows.
mod manners;
// A failing case is made smaller while it still fails in the same way.
mod minimize;
// docs/nccl-coverage.md says which scenarios call each of NCCL's functions, or why none does.
mod nccl_coverage;
// NCCL libraries are found, each is probed in a separate process, and one is chosen or fetched.
mod nccl_libraries;
mod new;
// What a library's settings change in the order of summation is told by name.
mod one_sided;
mod order_maps;
// Order maps name the rings and trees that real libraries log.
mod real_orders;
// The backend nccl runs on the stand-in library and driver as it would on NCCL and CUDA.
mod over_standins;
// The generated corpus has every pair of values of two factors.
mod pairs_of_factors;
// Threads and processes give the same outcomes and outputs.
mod placements;
// Two libraries are compared, and the exit code says whether anything got worse.
mod compare;
// What a fault of the candidate breaks is worse, and nothing else has changed.
mod compare_faults;
// A plan has the calls, places, order and foresight that a scenario means.
mod plans;
// The plan refuses exactly the programs in which two uses of the same bytes have no order.
mod quick;
mod races;
// A process per rank gives the verdicts that threads give, and its end is the end of the case.
mod ranks_in_processes;
// Ranks whose processes end, and what the others do then.
mod ranks_that_end;
// A run writes several reports at once, for people, programs and CI systems.
mod report_files;
// The report says what was checked, who is wrong, and what the buffers held.
mod record;
mod reports;
// A runner keeps, replaces and gives up workers, and gives one verdict for each case.
mod runner;
// Random programs pass on the sound library, and a fault is found among them.
mod explore;
mod soak;
// Real libraries run without a GPU, and are never taken for libraries on GPUs.
mod software_gpus;
// Untrusted files, folders, variables and libraries are shown and not obeyed.
mod untrusted_files;
// Scenario files are read into the cases that they describe.
mod well_formed_files;
// The processes of a job meet, one of them reports, and what one of them is or does wrong is named.
mod several_processes;
// A worker does the calls of hand-made jobs.
mod worker_jobs;

// What the modules above share.
mod answered;
mod step_words;
mod support;
