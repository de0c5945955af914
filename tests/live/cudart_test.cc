// SPDX-License-Identifier: MIT
// NVIDIA's own libcudart, where there is one (SLOTSCOPE_CUDART, or where its installer puts it) and no
// driver: its functions are found, the probes fire, every call fails with 35
// (cudaErrorInsufficientDriver) and changes nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/unique_fd.h"
#include "cuda/calls.h"
#include "cuda/library.h"
#include "cuda/probes.h"
#include "harness.h"
#include "tests/cuda/standin.h"

namespace slotscope {
namespace {

constexpr int kInsufficientDriver = 35;

std::string FindCudart() {
  if (const char* path = std::getenv("SLOTSCOPE_CUDART")) return path;
  glob_t found = {};
  std::string path;
  if (glob("/usr/local/cuda*/lib64/libcudart.so.1[0-9]", 0, nullptr, &found) == 0)
    path = found.gl_pathv[0];
  globfree(&found);
  return path;
}

class Cudart : public testing::Test {
 protected:
  void SetUp() override {
    path_ = FindCudart();
    if (path_.empty()) GTEST_SKIP() << "there is no libcudart here";
    fd_.Reset(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd_.valid()) << path_;
    ASSERT_TRUE(ReadCudaLibrary(fd_.get(), &library_).ok());
  }

  std::string path_;
  UniqueFd fd_;
  CudaLibrary library_;
};

TEST_F(Cudart, HasTheFunctionsThatWeProbe) {
  EXPECT_EQ(library_.kind, CudaLibrary::Kind::kRuntime);
  EXPECT_TRUE(library_.gaps.empty()) << library_.gaps.front();
  std::set<std::string> found;
  for (const CudaLibrary::Target& target : library_.targets) found.insert(CudaCalls()[target.call].name);
  for (const CudaCall& call : CudaCalls()) {
    // CUDA before 13 has no __cudaLaunchKernel, before 12.3 no capture to a graph.
    const bool optional = (call.probe.flags & (SS_CUDA_PER_THREAD | SS_CUDA_DRIVER)) ||
                          call.name == "__cudaLaunchKernel" ||
                          call.name == "cudaStreamBeginCaptureToGraph";
    EXPECT_TRUE(optional || found.contains(call.name)) << call.name;
  }
}

TEST_F(Cudart, EveryCallFailsAndChangesNothing) {
  void* const cudart = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(cudart) << dlerror();
  const auto find = [&](const char* name) { return dlsym(cudart, name); };
  int version = 0;
  reinterpret_cast<int (*)(int*)>(find("cudaDriverGetVersion"))(&version);
  if (version != 0) GTEST_SKIP() << "there is a driver: its calls may succeed";

  Recorder recorder;
  recorder.Start();
  CudaProbes probes;
  ASSERT_TRUE(
      probes.Load(recorder.source().rings().map_fd(), recorder.source().output_errors_fd(), false).ok());
  CudaAttachment attachment;
  ASSERT_TRUE(probes.Attach(path_, library_, &attachment).ok());
  void* address = nullptr;
  cudaPitchedPtr_c pitched = {};
  const dim3_c one = {1, 1, 1};
  uint64_t nr_calls = 0;
  const auto fails = [&](int error) {
    EXPECT_EQ(error, kInsufficientDriver);
    nr_calls++;
  };
  for (int i = 0; i < 100; i++) {
    fails(reinterpret_cast<decltype(&cudaMalloc)>(find("cudaMalloc"))(&address, 1000));
    fails(reinterpret_cast<decltype(&cudaMalloc3D)>(find("cudaMalloc3D"))(&pitched, {100, 20, 30}));
    fails(reinterpret_cast<decltype(&cudaLaunchKernel)>(find("cudaLaunchKernel"))(&one, one, one,
                                                                                  nullptr, 0, nullptr));
    fails(reinterpret_cast<decltype(&cudaSetDevice)>(find("cudaSetDevice"))(0));
    fails(reinterpret_cast<decltype(&cudaDeviceSynchronize)>(find("cudaDeviceSynchronize"))());
    fails(reinterpret_cast<decltype(&cudaFree)>(find("cudaFree"))(nullptr));
  }
  EXPECT_EQ(address, nullptr);
  const CudaCounts counts = probes.counts();
  EXPECT_EQ(counts[SS_CUDA_NR_CALLED], nr_calls);
  EXPECT_EQ(counts[SS_CUDA_NR_FAILED], nr_calls);
  EXPECT_EQ(counts[SS_CUDA_NR_UNRETURNED] + counts[SS_CUDA_NR_UNREADABLE] + counts[SS_CUDA_NR_UNTRACKED],
            0u);
  attachment = {};
  recorder.Stop();
  for (const ss_any_message& message : recorder.messages())
    EXPECT_FALSE(message.hdr.type == SS_CUDA_CALL && message.cuda_call.tgid == getpid());
}

}  // namespace
}  // namespace slotscope
