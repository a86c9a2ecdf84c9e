//! The faults that belong to no family. A class may have several faults, each with an entry; the code names the entries' constants.
use crate::fault::Entry;

/// Defines the constants and the table: name of the constant, id, the error, and the kind of scenario that shows it.
macro_rules! faults {
    ($($name:ident, $id:literal: $text:literal; $shown_by:literal)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(u16)]
        enum Number { $($name),* }

        /// The faults' names for the places that hold them.
        pub(crate) mod named {
            use crate::fault::Fault;
            $(#[doc = $text] pub(crate) const $name: Fault = Fault(super::Number::$name as u16);)*
        }

        /// The faults that belong to no family, in the order of their ids.
        pub(crate) const PLAIN: &[Entry] = &[$(Entry { id: $id, text: $text, shown_by: $shown_by, family: None }),*];
    };
}

faults! {
    F01, "F01": "work is cut in four parts and the remainder is never written";
        "a count that is not a multiple of 4"
    F01B, "F01b": "all_reduce gives every rank an equal share, and the remainder is never written";
        "a count that is not a multiple of the number of ranks"
    F02, "F02": "only whole packs of 16 bytes are processed";
        "a count whose bytes are not a multiple of 16"
    F03, "F03": "the last pack of 16 bytes is written in full, past the buffer's end";
        "a small count; guards on both sides of every buffer are looked at anyway"
    F04, "F04": "elements after the last whole pack are combined with another operator";
        "the same operation over an odd count, with values that tell operators apart"
    F04B, "F04b": "elements after the last whole pack of a sum are added as if their bits were integers";
        "a floating-point sum over an odd count, with equal values at every index"
    F05, "F05": "the address of an input that is not aligned to 16 bytes is rounded down";
        "`offset = 1`"
    F06, "F06": "byte offsets are kept in 16 bits, so that blocks wrap onto the start";
        "more than 64 KiB in one buffer, with values that depend on the index"
    F07, "F07": "every slice of a chunk but the first is written to the first one's place";
        "a count of several slices, with values that depend on the index"
    F08, "F08": "after eight chunks the data come 16 bytes too early";
        "more than a whole step buffer, with values that depend on the index"
    F09, "F09": "the chunk after eight others is the one before it once more";
        "more than eight chunks, with values that depend on the index"
    F10, "F10": "the end of a result is what an earlier, longer one left there";
        "a long operation, then a short one with other values"
    F11, "F11": "the second half of a result is still that of the operation before";
        "the same operation several times with changing data"
    F12, "F12": "the input is read before what stands earlier on the stream has written it";
        "a map, an all_reduce of its result, another map, without waits"
    F13, "F13": "the stream goes on, and the host is told that it is over, before the last chunk is written";
        "any operation whose output is read by what comes next"
    F14, "F14": "the root is ignored: rank 0 is it";
        "root 1, and the last rank as the root"
    F15, "F15": "a root or peer inside a sub-communicator is taken to be the next rank";
        "a sub-communicator whose numbers differ from the world's, with a root or a peer"
    F16, "F16": "reduce and gather write into the output of ranks that are not the root";
        "reduce and gather whose other ranks have their own output buffer"
    F16B, "F16b": "reduce and gather refuse a null output on ranks that are not the root";
        "reduce and gather with `null_pointers = true`"
    F17, "F17": "blocks lie in the order of a ring, not of the ranks";
        "all_gather, all_to_all, gather or reduce_scatter with a different value in every block"
    F17B, "F17b": "blocks lie in the order of devices, which is the ranks' order turned by one";
        "all_gather, all_to_all or gather with a different value in every block"
    F18, "F18": "the rank's own block is taken to be in place already and skipped";
        "an out-of-place operation, also with one rank"
    F18B, "F18b": "a rank takes its own contribution to a reduction from its output, as if it were in place";
        "an out-of-place all_reduce or reduce: the output is poisoned before"
    F19, "F19": "in place, the input is overwritten before it was read";
        "in place with three ranks or more"
    F19B, "F19b": "the output is cleared before the input, which lies in it, was read";
        "any operation in place"
    F20, "F20": "an out-of-place reduction changes its input";
        "any out-of-place reduction: inputs are compared afterwards"
    F20B, "F20b": "an out-of-place operation that moves data clears the first element of what it sent";
        "any out-of-place data movement: inputs are compared afterwards"
    F21, "F21": "one rank's contribution is left out";
        "values such as 2^rank, in which every rank counts"
    F22, "F22": "one rank counts twice where the number of ranks is not a power of two";
        "3, 5, 6 or 7 ranks with values such as 2^rank"
    F23, "F23": "prod adds";
        "prod with values that tell it from a sum"
    F23B, "F23b": "min is max where a value is unsigned or negative";
        "min of unsigned and of negative values"
    F23C, "F23c": "avg does not divide";
        "avg with two ranks or more"
    F24, "F24": "avg divides at every hop";
        "avg with three ranks or more"
    F24B, "F24b": "avg divides the first chunk only";
        "avg over several chunks"
    F24C, "F24c": "avg divides by one less than the ranks";
        "avg with two ranks or more"
    F24D, "F24d": "avg divides by the number of elements";
        "avg with a count that differs from the number of ranks"
    F24E, "F24e": "avg in a communicator that was split off divides by the ranks of the one it came from";
        "avg after a split"
    F25, "F25": "integer avg multiplies by a reciprocal that is cut to zero";
        "avg of integers"
    F25B, "F25b": "integer avg goes through single precision";
        "avg of integers of 32 or 64 bits whose sums exceed 2^24"
    F26, "F26": "premul_sum's scalar is read in another width";
        "premul_sum with 0.5 in bf16"
    F26B, "F26b": "premul_sum takes rank 0's scalar for all";
        "premul_sum with another scalar on every rank"
    F26C, "F26c": "premul_sum multiplies at every hop";
        "premul_sum with a scalar other than 1, with three ranks or more"
    F27, "F27": "partial sums of f32 are rounded to bf16";
        "an f32 sum of three ranks or more that needs all its bits"
    F27B, "F27b": "partial sums of f16 are rounded to bf16";
        "an f16 sum of three ranks or more that needs all its bits"
    F27C, "F27c": "partial sums of f64 are rounded to single precision";
        "an f64 sum of three ranks or more that needs all its bits"
    F28, "F28": "every rank sums in a different order";
        "all_reduce of random data in three ranks or more"
    F29, "F29": "min and max compare a NaN like a number, so that it wins or loses by its place";
        "NaN on each rank in turn through min and max"
    F29B, "F29b": "an fp8 sum beyond the largest number becomes NaN or infinity";
        "sums of fp8 numbers near the largest"
    F29C, "F29c": "copies make every NaN the same";
        "NaN with payloads through data movement"
    F29D, "F29d": "copies lose the sign of a zero";
        "-0.0 through data movement"
    F29E, "F29e": "copies make subnormal numbers zero";
        "subnormal numbers through data movement"
    F30, "F30": "the first operation's type holds for the whole group";
        "a group of the same operation in two types, such as {f16, f32}"
    F30B, "F30b": "the first operation's operator holds for the whole group";
        "a group of two reductions, such as {sum, max}"
    F30C, "F30c": "the first operation's root holds for the whole group";
        "a group of two broadcasts with roots 0 and 1"
    F30D, "F30d": "the first operation's count holds for the whole group, where it is the smaller";
        "a group of two operations, the second over more elements"
    F31, "F31": "collectives of a group are lost from the fifth on";
        "a group of five or more collectives, such as a broadcast from every rank"
    F31B, "F31b": "reductions of a group are done twice from the fifth on";
        "a group of five or more reductions in place"
    F31C, "F31c": "operations on a group's second communicator are lost";
        "a group over two communicators"
    F31D, "F31d": "operations of a group are lost from the 65th on";
        "a group of 65 operations"
    F32, "F32": "two grouped sends of equal size to the same rank are swapped";
        "two sends of equal size with different data in one group"
    F32B, "F32b": "messages between two ranks are matched by size, not by order";
        "two sends of different sizes, received in the other order: that must not pass"
    F32C, "F32c": "two grouped receives of equal size from the same rank are swapped";
        "two receives of equal size with different data in one group"
    F33, "F33": "a message to the own rank is lost";
        "send and recv to oneself beside other traffic"
    F34, "F34": "zero elements: the rank skips the next operation as well";
        "zero elements, then an ordinary operation on the same communicator"
    F34B, "F34b": "zero elements: the operation never ends";
        "zero elements in any operation"
    F35, "F35": "a buffer shared with another communicator delivers that one's data";
        "operations with different data on a communicator and its children in turns"
    F36, "F36": "split forgets the keys and orders by the old rank";
        "a split with keys in reverse, then an all_gather of the old ranks"
    F36B, "F36b": "split orders equal keys the wrong way round";
        "a split with equal keys, then an all_gather of the old ranks"
    F36C, "F36c": "split lets ranks without a colour in";
        "a split in which one rank has no colour, then an operation on the new communicator"
    F36D, "F36d": "split orders equal keys of more than eight ranks the wrong way round";
        "a split of more than 8 ranks with equal keys, then an all_gather of the old ranks"
    F36E, "F36e": "split takes colours modulo 65,536";
        "a split with colours that differ by 65,536"
    F37, "F37": "a counter of eight bits wraps: the contribution before counts as the new one";
        "300 tiny operations with changing data"
    F37B, "F37b": "a counter of eight bits wraps: an operation never ends";
        "300 tiny operations"
    F38, "F38": "the 33rd operation of a communicator is never done";
        "more than 32 operations on one communicator"
    F40, "F40": "a failed call or a failed communicator counts as success";
        "a call that must fail, with the error that is expected"
    F40B, "F40b": "an error leaves the group open: the next good call fails";
        "a good operation after an error on the same communicator"
    F53, "F53": "premul_sum's scalar in device memory is read when the call is made, not when the stream reaches the call";
        "premul_sum with `scalar = \"device\"` after other work of its stream"
    F60, "F60": "a send counts as done before its data are read";
        "a send, and then something else on its stream that overwrites what was sent"
    F60B, "F60b": "reduce and gather count as done on ranks that are not the root before their data are read";
        "a reduce and a gather, and then something else on the stream that overwrites a contributor's input"
    F60C, "F60c": "broadcast and scatter count as done on the root before its data are read";
        "a broadcast and a scatter, and then something else on the root's stream that overwrites its input"
    F61, "F61": "bytes of a message beyond 1,200,000 are not delivered";
        "a message of more than 1.2 MB"
    F61B, "F61b": "bytes of a collective's result beyond 4 MiB are not written";
        "every collective with a result of more than 4 MiB"
    F61C, "F61c": "byte offsets are kept in 24 bits, so that data beyond 16 MiB wrap to the start";
        "every operation with more than 16 MiB in one buffer"
    F61D, "F61d": "the last 16 bytes of a contribution of more than 4 MiB are sent as zeros";
        "every operation with a contribution of more than 4 MiB that does not end in zeros"
    F62, "F62": "a counter of twelve bits wraps: every 4,096th operation is lost";
        "5,000 operations on one communicator"
    F62B, "F62b": "operations of a group are lost from the 1,001st on";
        "a group of more than 1,000 operations"
    F63, "F63": "a communicator is unusable after a communicator split from it is destroyed";
        "a split, the child's end by destroy, and then an operation on the parent"
    F63B, "F63b": "a communicator's operations never end after a communicator split from it is aborted";
        "a split, the child's end by abort, and then an operation on the parent"
    F63C, "F63c": "a communicator is unusable after its parent, from which it was split, is destroyed";
        "a split, the parent's end, and then an operation on the child"
    F64, "F64": "an operation changes its input while it runs and restores it at its end";
        "two operations that read the same input at the same time"
    F65, "F65": "ncclCommCount of a split communicator gives the number of ranks of the communicator it was split from";
        "a split that leaves a rank out"
    F65B, "F65b": "ncclCommUserRank gives the number of the rank's device";
        "communicators in which ranks have other numbers than in the world"
    F65C, "F65c": "ncclCommCuDevice gives device 0 for every communicator";
        "a communicator of two ranks"
    F65D, "F65d": "ncclCommGetAsyncError of a split communicator writes nothing";
        "a split"
    F65E, "F65e": "ncclGetErrorString of a remote error gives a null pointer";
        "any scenario: the texts are asked for at its end"
    F65F, "F65f": "ncclGetLastError gives a null pointer after a call that failed";
        "a call that must fail"
    F66, "F66": "an empty group is an error";
        "a group without steps"
    F66B, "F66b": "the end of an inner group begins the calls that the outer group has so far";
        "a group in a group with a send, and the receive after it in the outer group"
    F66C, "F66c": "the end of an inner group ends the outer one";
        "a group in a group"
    F67, "F67": "the null stream is refused";
        "an operation with `stream = \"default\"`"
    F67B, "F67b": "operations on the null stream do not wait for earlier work on it";
        "a map and an operation on its result, both with `stream = \"default\"`"
    F68, "F68": "a root of broadcast or reduce that is too large is taken modulo the number of ranks";
        "broadcast and reduce with a root beyond the last rank and `error = \"invalid_argument\"`"
    F68B, "F68b": "a root of gather or scatter that is too large is taken modulo the number of ranks";
        "gather and scatter with a root beyond the last rank and `error = \"invalid_argument\"`"
    F68C, "F68c": "a peer that is too large is taken modulo the number of ranks";
        "send and recv with a peer beyond the last rank and `error = \"invalid_argument\"`"
    F68D, "F68d": "a negative root or peer is taken to be 0";
        "a root and a peer of -1 with `error = \"invalid_argument\"`"
    F70, "F70": "ncclCommUserRank of a communicator that was shrunk gives the rank's old number";
        "a shrink without a rank that is not the last"
    F70D, "F70d": "a communicator that came from a shrink is not given back when it is destroyed: after 64 of them there is no room";
        "shrinks in a loop, each destroyed again, more than 64 parts of them"
    F70E, "F70e": "shrink reads the ranks that it leaves out only as far as their numbers rise";
        "a shrink whose `without` is a list in another order"
    F72, "F72": "revoke leaves the operations of the communicator running";
        "an operation that cannot finish, and a revoke of its communicator"
    F72B, "F72b": "a revoked communicator takes operations";
        "a revoke, and then an operation with `error = \"invalid_usage\"`"
    F73, "F73": "the first operation after a suspend and resume is lost";
        "suspend, resume, and then an operation"
    F74B, "F74b": "a call on a non-blocking communicator counts as over and is never done";
        "an operation on a communicator with `config = { blocking = 0 }`, whose output is looked at after the last wait"
    F75, "F75": "a launch uses the inputs as they were when the graph was captured";
        "a captured operation whose input changes between capture and launch"
    F75B, "F75b": "every launch of a graph uses the inputs of its first launch";
        "a graph that is launched twice, with another input each time"
    F76B, "F76b": "a launch does only the first operation of its graph";
        "a graph of two operations"
    F76C, "F76c": "launches of a graph after the first do nothing";
        "a graph that is launched twice, with another input each time"
    F77, "F77": "a captured operation runs when it is captured, too";
        "a captured all_reduce in place, or one whose output is looked at before the first launch"
    F78, "F78": "two graphs of a communicator share one state: the second does what the first does";
        "two graphs of one communicator with different operations"
    F79, "F79": "a launch leaves the communicator's counters behind, so that the next direct call is lost";
        "a launch, and then a direct call on the same communicator"
    F79B, "F79b": "only the first call of a captured group becomes part of the graph";
        "a captured group of two calls"
    F80, "F80": "a signal is counted twice";
        "two waits for signals in a row, the second signal being late, and a use of the data after the second"
    F80B, "F80b": "a put of no elements sends no signal";
        "a put of no elements, and a wait for it"
    F80C, "F80c": "a wait for signals after the first one is met by the same signals";
        "two waits for signals in a row, the second signal being late, and a use of the data after the second"
    F80E, "F80e": "the signals of all contexts count together";
        "waits for signals in two contexts, of which one is late"
    F80F, "F80f": "all signals of a context count together, whatever their index";
        "waits for signals with two indices, of which one is late"
    F81, "F81": "the data of a put come with the next put to the same rank";
        "a put, and a use of its data after the wait"
    F81B, "F81b": "the offset of a put is divided by the size of its elements";
        "a put to a part of a window that is not its first"
    F81C, "F81c": "a put to the own rank is lost";
        "a put to the own rank, and a wait for it"
    F81D, "F81d": "every 256th put of a rank is lost";
        "300 puts to one rank, and a wait for all their signals"
    F82, "F82": "operations read what a buffer held when it was deregistered";
        "a buffer that is registered, deregistered, changed and read"
    F82B, "F82b": "what should go to a registered buffer goes to the one that was registered first";
        "operations into two registered buffers"
    F82C, "F82c": "a put to the second of two windows in one allocation goes to the first";
        "windows of two parts of one buffer, and a put to the second"
    F82D, "F82d": "the first collective of a communicator of two ranks that has a window never ends";
        "two ranks, a window, and a collective as the first operation"
    F83, "F83": "ncclMemAlloc gives memory that is in use";
        "two buffers in windows"
    F83B, "F83b": "a window that begins at any byte is accepted";
        "a step that registers a window of `x[1:]`, with `error = \"invalid_argument\"`"
    F83C, "F83c": "after a registration was refused, the next one is refused as well";
        "a registration that must fail, and then a good one"
    F84, "F84": "ncclWinGetUserPtr answers an internal error where there are no windows";
        "a window with NCCL_WIN_ENABLE or NCCL_P2P_DISABLE set so that there are none"
    F84B, "F84b": "ncclWinGetUserPtr gives the start of the allocation, not of the window";
        "any window that does not begin where its allocation does"
    F84C, "F84c": "signals are taken before there is a window";
        "a signal before any window, with `error = \"invalid_usage\"`"
    F84D, "F84d": "a context or a signal's index that is too large is taken modulo the number that there is";
        "a signal with context 1 or index 1 and `error = \"invalid_argument\"`"
    F85, "F85": "the configuration of a call is ignored";
        "an `algorithm`, and an `assert` on the call's figures or sums that tell the order"
    F85B, "F85b": "a call that asks for an algorithm which it cannot have takes another one";
        "an all_gather with `algorithm = \"tree\"` and `error = \"invalid_argument\"`"
    F86, "F86": "the configuration of a call is kept for the communicator's later calls";
        "a call with an `algorithm`, then one without, and an `assert` on its figures"
    F89, "F89": "a call with a configuration forgets its root";
        "a broadcast with an `algorithm` and root 1"
    F89B, "F89b": "a call with a configuration takes every reduction for a sum";
        "an all_reduce with an `algorithm` and `reduce = \"max\"`"
    F89C, "F89c": "a call without elements crashes if it asks for an algorithm which it cannot have";
        "`count = 0` and an `algorithm` that the operation does not have"
    F89D, "F89d": "a call without elements is refused if it asks for an algorithm which it cannot have";
        "`count = 0` and an `algorithm` that the operation does not have"
    F89E, "F89e": "sums of bf16 are added in another order in every communicator but the first one of the process";
        "`before` with steps on another communicator, then an all_reduce of bf16 that rounds"
    F90, "F90": "a communicator that was shrunk after the death of a rank still counts it";
        "`placement = \"processes\"`, an `exit`, a wait for the error, and a shrink"
    F91, "F91": "the first operation of a communicator that was shrunk after a death is taken for over: its output keeps what it held";
        "an `exit`, a wait for the error, a shrink, and an operation"
    F92, "F92": "the end of another process is reported as an internal error";
        "an `exit`, and a `wait` with `error = \"remote_error\"`"
    F92B, "F92b": "the end of another process is not noticed";
        "an `exit`, and a `wait` with `error = \"remote_error\"`"
    F93, "F93": "the end of a process breaks communicators that it has no part in";
        "an `exit`, and operations of a communicator of other ranks"
    F94, "F94": "a communicator that has lost a rank takes operations as if nothing had happened";
        "an `exit`, a wait for the error, and an operation with `error = \"remote_error\"`"
}
