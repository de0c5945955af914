// SPDX-License-Identifier: MIT
// replay FOLDER: a fuzzer's target without libFuzzer, for `make test`: each file of its corpus, and a
// few hundred times as many with bytes of it changed, cut out, or put in twice. The same ones each time;
// what is new `make fuzz` finds. Prints how many.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMostBytes = 8192;  // as `make fuzz` has it
constexpr int kMutants = 12;         // of each file

void Try(const std::string& input) {
  // A copy of exactly that size: what reads behind its end may be noticed.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string Mutant(std::string input, std::mt19937* random) {
  for (auto nr = 1 + (*random)() % 4; nr > 0 && !input.empty(); nr--) {
    const size_t at = (*random)() % input.size();
    const size_t length = 1 + (*random)() % std::min<size_t>(input.size() - at, 64);
    switch ((*random)() % 4) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ 1 << (*random)() % 8);
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(at, input.substr(at, length));
        break;
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::mt19937 random(1);
  size_t nr = 0;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::string input{std::istreambuf_iterator<char>(file), {}};
    input.resize(std::min(input.size(), kMostBytes));
    Try(input);
    for (int i = 0; i < kMutants; i++, nr++) Try(Mutant(input, &random));
    nr++;
  }
  std::printf("%zu inputs\n", nr);
  return nr == 0;
}
