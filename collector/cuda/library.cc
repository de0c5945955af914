// SPDX-License-Identifier: MIT
#include "cuda/library.h"

#include <fmt/core.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/escape.h"
#include "cuda/calls.h"

namespace slotscope {
namespace {

constexpr size_t kMaxSymbols = 4u << 20;  // a browser has a million
constexpr size_t kMaxNameBytes = 100;     // of a gap; no function of CUDA has a longer one
constexpr size_t kMaxGaps = 64;
// Where nvcc puts device code, and what refers to it.
constexpr std::string_view kDeviceCodeSections[] = {".nv_fatbin", ".nvFatBinSegment"};

// Who has device code calls it at its start, of a shared runtime or of its own.
constexpr std::string_view kRegistersDeviceCode = "__cudaRegisterFatBinary";

struct ElfDeleter {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfFile = std::unique_ptr<Elf, ElfDeleter>;

Status Malformed(const char* what) {
  return {Exit::kBadInput, fmt::format("not a well-formed ELF file: {} ({})", what, elf_errmsg(-1))};
}

// Where an address of the loaded file is in the file.
class Segments {
 public:
  Status Read(Elf* elf) {
    size_t nr = 0, file_size = 0;
    if (elf_getphdrnum(elf, &nr)) return Malformed("its program headers");
    if (!elf_rawfile(elf, &file_size)) return Malformed("its bytes");
    for (size_t i = 0; i < nr; i++) {
      GElf_Phdr header;
      if (!gelf_getphdr(elf, static_cast<int>(i), &header)) return Malformed("a program header");
      if (header.p_type == PT_LOAD && (header.p_flags & PF_X) && header.p_offset <= file_size &&
          header.p_filesz <= file_size - header.p_offset)
        loaded_.push_back(header);
    }
    return {};
  }

  bool FindOffset(uint64_t address, uint64_t* offset) const {
    for (const GElf_Phdr& header : loaded_) {
      if (address < header.p_vaddr || address - header.p_vaddr >= header.p_filesz) continue;
      *offset = address - header.p_vaddr + header.p_offset;
      return true;
    }
    return false;
  }

 private:
  std::vector<GElf_Phdr> loaded_;
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

class Reader {
 public:
  explicit Reader(CudaLibrary* library) : library_(library) {}

  Status Read(Elf* elf) {
    GElf_Ehdr header;
    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) return Malformed("its header");
    if (header.e_machine != EM_X86_64)
      return {Exit::kBadInput, "an ELF file of another machine than x86-64"};
    if (Status status = segments_.Read(elf); !status.ok()) return status;
    size_t names = 0;
    if (elf_getshdrstrndx(elf, &names)) return Malformed("its section headers");
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section));) {
      GElf_Shdr section_header;
      if (!gelf_getshdr(section, &section_header)) return Malformed("a section header");
      if (const char* name = elf_strptr(elf, names, section_header.sh_name))
        has_device_code_ |= std::find(std::begin(kDeviceCodeSections), std::end(kDeviceCodeSections),
                                      name) != std::end(kDeviceCodeSections);
      if (section_header.sh_type == SHT_DYNSYM || section_header.sh_type == SHT_SYMTAB)
        if (Status status = ReadSymbols(elf, section, section_header); !status.ok()) return status;
    }
    Finish();
    return {};
  }

 private:
  Status ReadSymbols(Elf* elf, Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (!data || header.sh_entsize == 0) return Malformed("its symbols");
    const size_t nr = data->d_size / header.sh_entsize;
    if (nr > kMaxSymbols) return {Exit::kBadInput, fmt::format("an ELF file with {} symbols", nr)};
    for (size_t i = 0; i < nr; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, static_cast<int>(i), &symbol)) return Malformed("a symbol");
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC && symbol.st_shndx != SHN_UNDEF) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name && symbol.st_shndx == SHN_UNDEF)
        uses_shared_runtime_ |= std::string_view(name) == kRegistersDeviceCode;
      else if (name)
        OnFunction(name, symbol.st_value);
    }
    return {};
  }

  void OnFunction(std::string_view name, uint64_t address) {
    if (!name.starts_with("cu") && !name.starts_with("__cu")) return;
    auto found = CallOfName().find(name);
    if (found == CallOfName().end()) {
      if (IsCudaGap(name) && library_->gaps.size() < kMaxGaps)
        library_->gaps.push_back(EscapeName(name.substr(0, kMaxNameBytes)));
      return;
    }
    uint64_t offset;
    if (!segments_.FindOffset(address, &offset)) return;
    library_->targets.push_back({offset, found->second});
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
    if (library_->kind == CudaLibrary::Kind::kRuntime || library_->kind == CudaLibrary::Kind::kDriver)
      return;
    targets.clear();
    gaps.clear();
  }

  CudaLibrary* library_;
  Segments segments_;
  size_t nr_runtime_ = 0;
  size_t nr_driver_ = 0;
  bool has_device_code_ = false;
  bool uses_shared_runtime_ = false;
};

}  // namespace

Status ReadCudaLibrary(int fd, CudaLibrary* library) {
  *library = {};
  elf_version(EV_CURRENT);
  // Not mapped: whose file it is may cut it while we look.
  ElfFile elf(elf_begin(fd, ELF_C_READ, nullptr));
  if (!elf) return Malformed("it cannot be opened");
  Status status = Reader(library).Read(elf.get());
  if (!status.ok()) *library = {};
  return status;
}

}  // namespace slotscope
