// SPDX-License-Identifier: MIT
#include "cuda/library.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

#include "cuda/calls.h"
#include "cuda/elf_file.h"

namespace slotscope {
namespace {

constexpr size_t kMaxLoaded = 64;      // segments with code; a file has one or two
constexpr size_t kMaxTargets = 4096;   // each function has a name or two, in one table or two
constexpr size_t kMaxNameBytes = 100;  // of a gap; no function of CUDA has a longer one
constexpr size_t kMaxGaps = 64;
// Where nvcc puts device code, and what refers to it.
constexpr std::string_view kDeviceCodeSections[] = {".nv_fatbin", ".nvFatBinSegment"};

// Who has device code calls it at its start, of a shared runtime or of its own.
constexpr std::string_view kRegistersDeviceCode = "__cudaRegisterFatBinary";

// Where an address of the loaded file is in the file.
class Segments {
 public:
  explicit Segments(const ElfFile& elf) {
    for (const Elf64_Phdr& header : elf.segments())
      if (header.p_type == PT_LOAD && (header.p_flags & PF_X) && header.p_offset <= elf.size() &&
          header.p_filesz <= elf.size() - header.p_offset && loaded_.size() < kMaxLoaded)
        loaded_.push_back(header);
  }

  bool FindOffset(uint64_t address, uint64_t* offset) const {
    for (const Elf64_Phdr& header : loaded_) {
      if (address < header.p_vaddr || address - header.p_vaddr >= header.p_filesz) continue;
      *offset = address - header.p_vaddr + header.p_offset;
      return true;
    }
    return false;
  }

 private:
  std::vector<Elf64_Phdr> loaded_;
};

const std::unordered_map<std::string_view, uint32_t>& CallOfName() {
  static const auto indexes = [] {
    std::unordered_map<std::string_view, uint32_t> made;
    const auto& calls = CudaCalls();
    for (uint32_t i = 0; i < calls.size(); i++) made[calls[i].name] = i;
    return made;
  }();
  return indexes;
}

ss_cuda_prologue PrologueAt(ElfFile* elf, uint64_t offset) {
  std::array<std::byte, 4> code{};  // as far as it goes
  if (offset >= elf->size()) return SS_PROLOGUE_OTHER;
  const size_t nr = std::min<uint64_t>(code.size(), elf->size() - offset);
  if (!elf->ReadAt(offset, std::span(code).first(nr)).ok()) return SS_PROLOGUE_OTHER;
  constexpr std::byte kEndbr64[] = {std::byte{0xf3}, std::byte{0x0f}, std::byte{0x1e}, std::byte{0xfa}};
  if (std::equal(code.begin(), code.end(), kEndbr64)) return SS_PROLOGUE_ENDBR;
  const std::byte opcode = code[code[0] == std::byte{0x41}];  // behind a prefix, one of r8 to r15
  return (opcode & std::byte{0xf8}) == std::byte{0x50} ? SS_PROLOGUE_PUSH : SS_PROLOGUE_OTHER;
}

class Reader {
 public:
  Reader(ElfFile* elf, CudaLibrary* library) : elf_(elf), library_(library), segments_(*elf) {}

  Status Read() {
    for (const Elf64_Shdr& section : elf_->sections()) {
      has_device_code_ |= std::find(std::begin(kDeviceCodeSections), std::end(kDeviceCodeSections),
                                    elf_->NameOf(section)) != std::end(kDeviceCodeSections);
      if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) continue;
      Status status =
          elf_->ForEachSymbol(section, [this](const Elf64_Sym& symbol, std::string_view name) {
            if (symbol.st_shndx == SHN_UNDEF)
              uses_shared_runtime_ |= name == kRegistersDeviceCode;
            else if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
              OnFunction(name, symbol.st_value);
          });
      if (!status.ok()) return status;
      if (library_->targets.size() > kMaxTargets)
        return {Exit::kBadInput, "an ELF file with more functions of CUDA than there are"};
    }
    Finish();
    return {};
  }

 private:
  void OnFunction(std::string_view name, uint64_t address) {
    if (!name.starts_with("cu") && !name.starts_with("__cu")) return;
    auto found = CallOfName().find(name);
    if (found == CallOfName().end()) {
      if (IsCudaGap(name) && library_->gaps.size() < kMaxGaps)
        library_->gaps.emplace_back(name.substr(0, kMaxNameBytes));
      return;
    }
    uint64_t offset;
    if (library_->targets.size() > kMaxTargets || !segments_.FindOffset(address, &offset)) return;
    library_->targets.push_back({.offset = offset, .call = found->second});
    const bool driver = CudaCalls()[found->second].probe.flags & SS_CUDA_DRIVER;
    (driver ? nr_driver_ : nr_runtime_)++;
  }

  // A few functions of such a name do not make a library: others wrap or replace some.
  void Finish() {
    constexpr size_t kFew = 4;
    auto& targets = library_->targets;
    std::stable_sort(targets.begin(), targets.end(),
                     [](auto& a, auto& b) { return a.offset < b.offset; });
    // Two names of one function, or a symbol in both tables.
    auto same = [](const auto& a, const auto& b) { return a.offset == b.offset; };
    targets.erase(std::unique(targets.begin(), targets.end(), same), targets.end());
    auto& gaps = library_->gaps;
    std::sort(gaps.begin(), gaps.end());
    gaps.erase(std::unique(gaps.begin(), gaps.end()), gaps.end());
    if (nr_driver_ > kFew && nr_driver_ >= nr_runtime_)
      library_->kind = CudaLibrary::Kind::kDriver;
    else if (nr_runtime_ > kFew)
      library_->kind = CudaLibrary::Kind::kRuntime;
    else
      library_->kind = has_device_code_ && !uses_shared_runtime_ ? CudaLibrary::Kind::kHiddenRuntime
                                                                 : CudaLibrary::Kind::kNone;
    if (library_->kind == CudaLibrary::Kind::kRuntime || library_->kind == CudaLibrary::Kind::kDriver) {
      for (auto& target : targets) target.prologue = PrologueAt(elf_, target.offset);
      return;
    }
    targets.clear();
    gaps.clear();
  }

  ElfFile* elf_;
  CudaLibrary* library_;
  Segments segments_;
  size_t nr_runtime_ = 0;
  size_t nr_driver_ = 0;
  bool has_device_code_ = false;
  bool uses_shared_runtime_ = false;
};

}  // namespace

Status ReadCudaLibrary(int fd, CudaLibrary* library, const std::atomic<bool>* stop) {
  *library = {};
  ElfFile elf;
  if (Status status = elf.Open(fd, stop); !status.ok()) return status;
  Status status = Reader(&elf, library).Read();
  if (!status.ok()) *library = {};
  return status;
}

}  // namespace slotscope
