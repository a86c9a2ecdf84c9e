// Times one operation on f32 in gloo over TCP on this machine; benches/peers/main.rs builds it and runs it once for every rank.
//
// usage: gloo OPERATION ELEMENTS WARM_UP ITERATIONS RANK RANKS FOLDER
//
// ELEMENTS are those of the larger buffer; in FOLDER the ranks find each other. Prints one line: the wrong elements after the last
// iteration, then the seconds of every iteration that is timed, each from the end of the one before it to its own end. Ranks meet before the first
// and before the last.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "values.h"

namespace {

using Sum = void (*)(void*, const void*, const void*, size_t);

void all_reduce(const std::shared_ptr<gloo::Context>& context, std::vector<float>& in, std::vector<float>& out) {
  gloo::AllreduceOptions options(context);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  gloo::allreduce(options);
}

void all_gather(const std::shared_ptr<gloo::Context>& context, std::vector<float>& in, std::vector<float>& out) {
  gloo::AllgatherOptions options(context);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  gloo::allgather(options);
}

int run(char** argv) {
  const std::string operation = argv[1];
  const size_t count = std::stoull(argv[2]);
  const int warm_up = std::stoi(argv[3]), iterations = std::stoi(argv[4]);
  const int rank = std::stoi(argv[5]), ranks = std::stoi(argv[6]);
  if (operation != "all_reduce" && operation != "all_gather") {
    std::fprintf(stderr, "no such operation: %s\n", operation.c_str());
    return 2;
  }
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[7]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);

  std::vector<float> in(input_elements(operation.c_str(), count, ranks));
  std::vector<float> out(output_elements(operation.c_str(), count, ranks), -1.0f);
  for (size_t i = 0; i < in.size(); i++) in[i] = input_value(i, rank);
  std::vector<double> times;
  for (int i = -warm_up; i < iterations; i++) {
    if (i == iterations - 1) std::fill(out.begin(), out.end(), -1.0f);
    if (i == 0 || i == iterations - 1) {
      gloo::BarrierOptions barrier(context);
      gloo::barrier(barrier);
    }
    const auto begun = std::chrono::steady_clock::now();
    if (operation == "all_reduce") {
      all_reduce(context, in, out);
    } else {
      all_gather(context, in, out);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (i >= 0) times.push_back(took.count());
  }
  std::printf("%llu", wrong_elements(operation.c_str(), out.data(), count, rank, ranks));
  for (double time : times) std::printf(" %.9f", time);
  std::printf("\n");
  // No rank may go while another one still reads from it.
  gloo::BarrierOptions last(context);
  gloo::barrier(last);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: gloo OPERATION ELEMENTS WARM_UP ITERATIONS RANK RANKS FOLDER\n");
    return 2;
  }
  try {
    return run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
