// SPDX-License-Identifier: MIT
#include "cuda/elf_file.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/errno_text.h"

namespace slotscope {
namespace {

Status Malformed(const char* what) {
  return {Exit::kBadInput, fmt::format("not a well-formed ELF file: {}", what)};
}

Status TooLarge(const char* what) {
  return {Exit::kBadInput, fmt::format("an ELF file that is too large: {}", what)};
}

}  // namespace

std::string_view ElfFile::Strings::At(uint64_t offset) const {
  if (offset >= size) return {};
  const size_t most = std::min(size - offset, kMaxName);
  const size_t length = strnlen(bytes.get() + offset, most);
  return length < most ? std::string_view(bytes.get() + offset, length) : std::string_view();
}

Status ElfFile::ReadAt(uint64_t offset, std::span<std::byte> to) {
  if (offset > size_ || to.size() > size_ - offset) return Malformed("it ends before what it has");
  if (to.size() > left_) return TooLarge("it takes too long to read");
  left_ -= to.size();
  constexpr size_t kPiece = 1u << 20;  // between two looks at the flag
  while (!to.empty()) {
    if (stop_ && stop_->load(std::memory_order_relaxed)) return {Exit::kBadInput, "we are ending"};
    const ssize_t got = pread(fd_, to.data(), std::min(to.size(), kPiece), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {Exit::kBadInput, fmt::format("cannot be read: {}", ErrnoText(errno))};
    if (got == 0) return Malformed("it was cut meanwhile");
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

template <typename Header>
Status ElfFile::ReadHeaders(uint64_t offset, uint64_t nr, std::vector<Header>* headers) {
  if (nr > kMaxHeaders) return TooLarge("its headers");
  if (offset > size_ || nr * sizeof(Header) > size_ - offset) return Malformed("its headers");
  headers->resize(nr);
  return ReadAt(offset, std::as_writable_bytes(std::span(*headers)));
}

Status ElfFile::ReadStrings(uint64_t section, Strings* strings) {
  *strings = {};
  if (section >= sections_.size()) return Malformed("its names");
  const Elf64_Shdr& header = sections_[section];
  if (header.sh_type != SHT_STRTAB || header.sh_offset > size_ ||
      header.sh_size > size_ - header.sh_offset)
    return Malformed("its names");
  if (header.sh_size > kMaxStrings) return TooLarge("its names");
  strings->bytes.reset(new (std::nothrow) char[header.sh_size]);
  if (!strings->bytes) return TooLarge("there is no memory for its names");
  strings->size = header.sh_size;
  return ReadAt(header.sh_offset,
                std::as_writable_bytes(std::span(strings->bytes.get(), strings->size)));
}

Status ElfFile::Open(int fd, const std::atomic<bool>* stop) {
  *this = {};
  fd_ = fd;
  stop_ = stop;
  struct stat info;
  if (fstat(fd, &info)) return {Exit::kBadInput, fmt::format("cannot be read: {}", ErrnoText(errno))};
  if (!S_ISREG(info.st_mode)) return Malformed("it is no regular file");
  size_ = static_cast<uint64_t>(info.st_size);
  std::array<Elf64_Ehdr, 1> headers;
  if (Status status = ReadAt(0, std::as_writable_bytes(std::span(headers))); !status.ok()) return status;
  const Elf64_Ehdr& header = headers[0];
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Malformed("its header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64)
    return {Exit::kBadInput, "an ELF file of another machine than x86-64"};
  if (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    return Malformed("its program headers");
  // Without sections it has no symbols.
  uint64_t nr_sections = header.e_shoff ? header.e_shnum : 0, nr_segments = header.e_phnum;
  uint64_t names = header.e_shstrndx;
  if (header.e_shoff) {
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return Malformed("its section headers");
    // Numbers that are too large for the header are in the first section's.
    std::vector<Elf64_Shdr> first;
    if (Status status = ReadHeaders(header.e_shoff, 1, &first); !status.ok()) return status;
    if (nr_sections == 0) nr_sections = first[0].sh_size;
    if (nr_segments == PN_XNUM) nr_segments = first[0].sh_info;
    if (names == SHN_XINDEX) names = first[0].sh_link;
  }
  if (Status status = ReadHeaders(header.e_phoff, nr_segments, &segments_); !status.ok()) return status;
  if (Status status = ReadHeaders(header.e_shoff, nr_sections, &sections_); !status.ok()) return status;
  return nr_sections > 0 && names != SHN_UNDEF ? ReadStrings(names, &names_) : Status();
}

std::string_view ElfFile::NameOf(const Elf64_Shdr& section) const { return names_.At(section.sh_name); }

Status ElfFile::ForEachSymbol(const Elf64_Shdr& table,
                              const std::function<void(const Elf64_Sym&, std::string_view name)>& fn) {
  if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_offset > size_ ||
      table.sh_size > size_ - table.sh_offset)
    return Malformed("its symbols");
  size_t nr = table.sh_size / sizeof(Elf64_Sym);
  if (nr == 0) return {};
  nr_symbols_ += nr;
  if (nr_symbols_ > kMaxSymbols) return TooLarge("its symbols");
  Strings names;
  if (Status status = ReadStrings(table.sh_link, &names); !status.ok()) return status;
  std::vector<Elf64_Sym> symbols(std::min<size_t>(nr, 4096));
  for (uint64_t offset = table.sh_offset; nr > 0;) {
    const std::span<Elf64_Sym> some(symbols.data(), std::min(nr, symbols.size()));
    if (Status status = ReadAt(offset, std::as_writable_bytes(some)); !status.ok()) return status;
    for (const Elf64_Sym& symbol : some)
      if (const std::string_view name = names.At(symbol.st_name); !name.empty()) fn(symbol, name);
    offset += some.size_bytes();
    nr -= some.size();
  }
  return {};
}

}  // namespace slotscope
