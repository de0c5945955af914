// SPDX-License-Identifier: MIT
// Which functions of which files are probed. The stand-in libraries are built by make; a real libcudart
// is looked at where there is one (CUDA_HOME or /usr/local/cuda).
#include "cuda/library.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cuda/calls.h"
#include "cuda/process_maps.h"

namespace slotscope {
namespace {

std::string Standin(const char* name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "standin" / name).string();
}

Status Read(const std::string& path, CudaLibrary* library) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  return ReadCudaLibrary(fd.get(), library);
}

std::set<std::string> NamesOf(const CudaLibrary& library) {
  std::set<std::string> names;
  for (const auto& target : library.targets) names.insert(CudaCalls()[target.call].name);
  return names;
}

TEST(CudaCalls, EachNameOnceAndAllFitIntoTheTable) {
  std::set<std::string> names;
  for (const CudaCall& call : CudaCalls()) {
    EXPECT_TRUE(names.insert(call.name).second) << call.name;
    EXPECT_GT(call.probe.op, 0) << call.name;
    EXPECT_LT(call.probe.op, SS_CUDA_NR_OPS) << call.name;
    EXPECT_EQ(call.name.ends_with("_ptsz") || call.name.ends_with("_ptds"),
              (call.probe.flags & SS_CUDA_PER_THREAD) != 0)
        << call.name;
    for (const ss_cuda_value& value : call.probe.values) {
      const bool on_stack = value.from == SS_FROM_STACK || value.from == SS_FROM_STACK32;
      EXPECT_TRUE(on_stack || value.index < 6) << call.name;
    }
  }
  EXPECT_LE(CudaCalls().size(), size_t{SS_CUDA_MAX_CALLS});
}

TEST(CudaCalls, WhatMayAllocateOrLaunchAndIsNotProbedIsAGap) {
  for (const char* name :
       {"cudaMallocNextYear", "cuLaunchKernelEx_v2", "cuMemCreate_v2", "cudaLaunchKernel_v7000"})
    EXPECT_TRUE(IsCudaGap(name)) << name;
  for (const char* name : {"cudaMalloc", "cuLaunchKernel_ptsz", "cudaGetLastError", "cuMulticastUnbind",
                           "cudaMallocNext.cold", "cudaMalloc Next", "cudaMalloc\xff", "main", ""})
    EXPECT_FALSE(IsCudaGap(name)) << name;
}

TEST(CudaLibrary, StandIns) {
  CudaLibrary runtime, driver;
  ASSERT_TRUE(Read(Standin("libcudart.so.13"), &runtime).ok());
  ASSERT_TRUE(Read(Standin("libcuda.so.1"), &driver).ok());
  EXPECT_EQ(runtime.kind, CudaLibrary::Kind::kRuntime);
  EXPECT_EQ(driver.kind, CudaLibrary::Kind::kDriver);
  EXPECT_TRUE(NamesOf(runtime).contains("__cudaLaunchKernel_ptsz"));
  EXPECT_TRUE(NamesOf(driver).contains("cuMemAlloc_v2"));
  EXPECT_FALSE(NamesOf(driver).contains("cudaMalloc"));
  std::set<uint64_t> offsets;
  for (const auto& target : driver.targets) EXPECT_TRUE(offsets.insert(target.offset).second);
}

TEST(CudaLibrary, WithWhatFunctionsBegin) {
  CudaLibrary library;
  ASSERT_TRUE(Read(Standin("prologues/libcudart.so.13"), &library).ok());
  std::map<std::string, ss_cuda_prologue> prologues;
  for (const auto& target : library.targets) prologues[CudaCalls()[target.call].name] = target.prologue;
  EXPECT_EQ(prologues,
            (std::map<std::string, ss_cuda_prologue>{{"cudaFree", SS_PROLOGUE_PUSH},
                                                     {"cudaFreeHost", SS_PROLOGUE_PUSH},
                                                     {"cudaDeviceSynchronize", SS_PROLOGUE_ENDBR},
                                                     {"cudaStreamSynchronize", SS_PROLOGUE_ENDBR},
                                                     {"cudaSetDevice", SS_PROLOGUE_OTHER},
                                                     {"cudaEventSynchronize", SS_PROLOGUE_OTHER}}));
}

TEST(CudaLibrary, TheRealRuntimeHasNoFunctionThatWeDoNotKnow) {
  const char* home = std::getenv("CUDA_HOME");
  const std::string path = std::string(home ? home : "/usr/local/cuda") + "/lib64/libcudart.so";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "there is no " << path;
  CudaLibrary library;
  ASSERT_TRUE(Read(path, &library).ok());
  EXPECT_EQ(library.kind, CudaLibrary::Kind::kRuntime);
  EXPECT_EQ(library.gaps, std::vector<std::string>{});
  EXPECT_GT(library.targets.size(), 50u);
}

TEST(CudaLibrary, OtherFilesHaveNothing) {
  CudaLibrary library;
  EXPECT_TRUE(Read("/bin/sh", &library).ok());
  EXPECT_EQ(library.kind, CudaLibrary::Kind::kNone);
  EXPECT_EQ(library.targets.size(), 0u);
  const Status status = Read("/etc/passwd", &library);
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find("not a well-formed ELF file"), std::string::npos) << status.message();
}

// A hostile file: each byte of a real one's start, and each of its section headers' bytes, set to 0xff.
TEST(CudaLibrary, DamagedFilesAreRefusedOrRead) {
  std::ifstream in(Standin("libcudart.so.13"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(whole.size(), 4096u);
  const std::string path = testing::TempDir() + "/damaged.so";
  auto read_with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    CudaLibrary library;
    (void)Read(path, &library);
    for (const auto& target : library.targets) EXPECT_LT(target.offset, whole.size());
  };
  for (size_t at = 0; at < 1024; at += 3) {
    std::string bytes = whole;
    bytes[at] = '\xff';
    read_with(bytes);
  }
  for (size_t at = whole.size() - 2048; at < whole.size(); at += 5) {
    std::string bytes = whole;
    bytes[at] = '\xff';
    read_with(bytes);
  }
  for (size_t size = 0; size < whole.size(); size += 997) read_with(whole.substr(0, size));
}

// A file in memory whose blocks are made only where something was written.
class SparseElf {
 public:
  static constexpr uint64_t kSections = 4096;
  SparseElf() : fd_(memfd_create("elf", MFD_CLOEXEC)) {
    header_.e_shentsize = sizeof(Elf64_Shdr);
    header_.e_shoff = kSections;
    std::memcpy(header_.e_ident, ELFMAG, SELFMAG);
    header_.e_ident[EI_CLASS] = ELFCLASS64;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_machine = EM_X86_64;
    header_.e_phentsize = sizeof(Elf64_Phdr);
    header_.e_phoff = sizeof(header_);
    header_.e_phnum = 1;
    Elf64_Phdr code = {};
    code.p_type = PT_LOAD;
    code.p_flags = PF_X;
    code.p_filesz = UINT32_MAX;
    WriteAt(sizeof(header_), &code, sizeof(code));
    Add({});
  }
  void WriteAt(uint64_t offset, const void* bytes, size_t size) const {
    EXPECT_EQ(pwrite(fd_.get(), bytes, size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
  }
  uint32_t Add(const Elf64_Shdr& section) {
    WriteAt(kSections + header_.e_shnum * sizeof(section), &section, sizeof(section));
    return header_.e_shnum++;
  }
  uint32_t AddStrings(uint64_t offset, uint64_t size) {
    Elf64_Shdr section = {};
    section.sh_type = SHT_STRTAB;
    section.sh_offset = offset;
    section.sh_size = size;
    return Add(section);
  }
  void AddSymbols(uint64_t offset, uint64_t nr, uint32_t strings) {
    Elf64_Shdr section = {};
    section.sh_type = SHT_SYMTAB;
    section.sh_offset = offset;
    section.sh_size = nr * sizeof(Elf64_Sym);
    section.sh_entsize = sizeof(Elf64_Sym);
    section.sh_link = strings;
    Add(section);
  }
  // What is said of it by a process that may use a few hundred MiB, and ends after 20 s whatever it
  // does.
  std::string Read(const std::atomic<bool>* stop = nullptr) {
    EXPECT_EQ(ftruncate(fd_.get(), 1ll << 42), 0);
    WriteAt(0, &header_, sizeof(header_));
    int result[2];
    EXPECT_EQ(pipe2(result, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
#ifndef __SANITIZE_ADDRESS__
      const rlimit limit = {700u << 20, 700u << 20};
      setrlimit(RLIMIT_AS, &limit);
#endif
      CudaLibrary library;
      const Status status = ReadCudaLibrary(fd_.get(), &library, stop);
      const std::string& text = status.ok() ? "read" : status.message();
      const ssize_t size = write(result[1], text.data(), text.size());
      _exit(size == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(result[1]);
    std::string text(1000, '\0');
    const ssize_t size = read(result[0], text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    close(result[0]);
    int ended;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0) << "it was killed, or ran out of memory";
    return text;
  }

  Elf64_Ehdr header_ = {};

 private:
  UniqueFd fd_;
};

constexpr uint64_t kGiB = 1u << 30;

// Files that cost whoever makes them nothing, and say that they are large.
TEST(CudaLibrary, SparseFilesHaveABudget) {
  {
    SparseElf elf;
    elf.AddSymbols(kGiB, 1ull << 36, elf.AddStrings(kGiB, 4096));
    EXPECT_EQ(elf.Read(), "an ELF file that is too large: its symbols");
  }
  {
    SparseElf elf;
    for (int i = 0; i < 9; i++) elf.AddSymbols(kGiB, 1u << 19, elf.AddStrings(kGiB, 4096));
    EXPECT_EQ(elf.Read(), "an ELF file that is too large: its symbols") << "of all tables";
  }
  {
    SparseElf elf;
    elf.AddSymbols(kGiB, 1, elf.AddStrings(kGiB, 1ull << 40));
    EXPECT_EQ(elf.Read(), "an ELF file that is too large: its names");
  }
  {
    SparseElf elf;
    const uint32_t strings = elf.AddStrings(kGiB, 200u << 20);
    for (int i = 0; i < 100; i++) elf.AddSymbols(kGiB, 1, strings);
    EXPECT_EQ(elf.Read(), "an ELF file that is too large: it takes too long to read");
  }
  {
    SparseElf elf;
    Elf64_Shdr first = {};
    first.sh_size = 1ull << 34;  // sections
    elf.header_.e_shnum = 0;
    elf.Add(first);
    elf.header_.e_shnum = 0;
    EXPECT_EQ(elf.Read(), "an ELF file that is too large: its headers");
  }
  {
    SparseElf elf;
    elf.AddSymbols(1ull << 42, 1, elf.AddStrings(kGiB, 4096));
    EXPECT_EQ(elf.Read(), "not a well-formed ELF file: its symbols") << "behind the file's end";
  }
}

// A name that nearly never ends, for each symbol; and one function at four thousand places.
TEST(CudaLibrary, NamesAndFunctionsHaveABudget) {
  constexpr uint64_t kNames = kGiB, kSymbols = 2 * kGiB;
  const std::string letters(1u << 20, 'c');
  const std::vector<Elf64_Sym> symbols(1u << 20, Elf64_Sym{1, 0, 0, 1, 0, 0});
  {
    SparseElf elf;
    for (uint64_t i = 0; i < 100; i++) elf.WriteAt(kNames + (i << 20), letters.data(), letters.size());
    elf.WriteAt(kSymbols, symbols.data(), symbols.size() * sizeof(symbols[0]));
    elf.AddSymbols(kSymbols, symbols.size(), elf.AddStrings(kNames, 101u << 20));
    EXPECT_EQ(elf.Read(), "read");
  }
  {
    SparseElf elf;
    elf.WriteAt(kNames + 1, "cuInit", 7);
    std::vector<Elf64_Sym> many(5000, Elf64_Sym{1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0, 0});
    for (size_t i = 0; i < many.size(); i++) many[i].st_value = 16 * i;
    elf.WriteAt(kSymbols, many.data(), many.size() * sizeof(many[0]));
    elf.AddSymbols(kSymbols, many.size(), elf.AddStrings(kNames, 4096));
    EXPECT_EQ(elf.Read(), "an ELF file with more functions of CUDA than there are");
  }
}

TEST(CudaLibrary, ReadingEndsWhenWeDo) {
  SparseElf elf;
  const std::atomic<bool> stop{true};
  EXPECT_EQ(elf.Read(&stop), "we are ending");
}

TEST(ProcessMaps, ExecutableFilesOnceEach) {
  const auto files = ParseMaps(
      "7f1000-7f2000 r--p 00000000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f2000-7f3000 r-xp 00001000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f4000-7f5000 r-xp 00001000 08:01 42                  /usr/lib/libcuda.so.1\n"
      "7f6000-7f7000 rwxp 00000000 00:00 0 \n"
      "7f7000-7f8000 r-xp 00000000 00:00 0                   [vdso]\n"
      "7f8000-7f9000 r-xp 00000000 fe:10 7                   /tmp/a b\\012c (deleted)\n");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].range, "7f2000-7f3000");
  EXPECT_EQ(files[0].dev, (uint64_t{8} << 32 | 1));
  EXPECT_EQ(files[0].inode, 42u);
  EXPECT_EQ(files[1].path, "/tmp/a b\\012c (deleted)");
  EXPECT_EQ(files[1].dev, (uint64_t{0xfe} << 32 | 0x10));
}

TEST(ProcessMaps, WhatIsNotALineIsLeftOut) {
  for (const char* text :
       {"", "\n\n", "x", "7f-8f r-xp", "7f-8f r-xp 0 08:01 42", "7f-8f r-xp 0 08:01 42 ",
        "7f r-xp 0 08:01 42 /a", "7f-8f r-xp 0 0801 42 /a", "-8f r-xp 0 08:01 42 /a",
        "ffffffffffffffffff-8f r-xp 0 08:01 42 /a", "7f-8f r-xp 0 08:01 -42 /a"})
    EXPECT_EQ(ParseMaps(text).size(), 0u) << text;
}

TEST(ProcessMaps, OfThisProcess) {
  std::vector<MappedFile> files;
  ASSERT_TRUE(ReadMaps(getpid(), &files).ok());
  EXPECT_GT(files.size(), 2u);
  EXPECT_FALSE(ReadMaps(0x7ffffff0, &files).ok());
  EXPECT_EQ(files.size(), 0u);
}

}  // namespace
}  // namespace slotscope
