// SPDX-License-Identifier: MIT
// Kernel, eBPF and collector see the same bytes: offset and size of every field, as the C++ compiler,
// a C compiler and BTF have them.
#include <bpf/btf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <slotscope/cuda_probe.h>
#include <slotscope/events.h>
#include <slotscope/rmid_fifo.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

struct Field {
  const char* type;
  const char* name;
  size_t offset;
  size_t size;
};

#define FIELD(type, name) \
  { #type, #name, offsetof(type, name), sizeof(type::name) }

const std::vector<Field> kFields = {
    FIELD(ss_hdr, ts_ns),
    FIELD(ss_hdr, type),
    FIELD(ss_hdr, size),
    FIELD(ss_hdr, cpu),
    FIELD(ss_counter, delta),
    FIELD(ss_counter, enabled_ns),
    FIELD(ss_counter, running_ns),
    FIELD(ss_measure, hdr),
    FIELD(ss_measure, start_ns),
    FIELD(ss_measure, start_time_ns),
    FIELD(ss_measure, wait_ns),
    FIELD(ss_measure, tgid),
    FIELD(ss_measure, next_tgid),
    FIELD(ss_measure, seq),
    FIELD(ss_measure, rmid),
    FIELD(ss_measure, generation),
    FIELD(ss_measure, flags),
    FIELD(ss_measure, switches),
    FIELD(ss_measure, preemptions),
    FIELD(ss_measure, counters),
    FIELD(ss_measure, migrations),
    FIELD(ss_measure, stolen_ns),
    FIELD(ss_measure, cut_ns),
    FIELD(ss_measure, zero),
    FIELD(ss_long_measure, measure),
    FIELD(ss_long_measure, more),
    FIELD(ss_task_meta, hdr),
    FIELD(ss_task_meta, start_time_ns),
    FIELD(ss_task_meta, cgroup_id),
    FIELD(ss_task_meta, tgid),
    FIELD(ss_task_meta, ppid),
    FIELD(ss_task_meta, rmid),
    FIELD(ss_task_meta, generation),
    FIELD(ss_task_meta, flags),
    FIELD(ss_task_meta, zero),
    FIELD(ss_task_meta, comm),
    FIELD(ss_rmid_event, hdr),
    FIELD(ss_rmid_event, start_time_ns),
    FIELD(ss_rmid_event, seq),
    FIELD(ss_rmid_event, tgid),
    FIELD(ss_rmid_event, rmid),
    FIELD(ss_rmid_event, generation),
    FIELD(ss_rmid_event, reason),
    FIELD(ss_rdt_sample, hdr),
    FIELD(ss_rdt_sample, since_ns),
    FIELD(ss_rdt_sample, value),
    FIELD(ss_rdt_sample, rmid),
    FIELD(ss_rdt_sample, generation),
    FIELD(ss_rdt_sample, domain),
    FIELD(ss_rdt_sample, event),
    FIELD(ss_rdt_sample, status),
    FIELD(ss_text, hdr),
    FIELD(ss_text, start_time_ns),
    FIELD(ss_text, cgroup_id),
    FIELD(ss_text, tgid),
    FIELD(ss_text, flags),
    FIELD(ss_text, text_len),
    FIELD(ss_text, text),
    FIELD(ss_tick, hdr),
    FIELD(ss_tick, due_ns),
    FIELD(ss_tick, missed),
    FIELD(ss_tick, zero),
    FIELD(ss_cpu_state, hdr),
    FIELD(ss_cpu_state, online),
    FIELD(ss_cpu_state, zero),
    FIELD(ss_cuda_call, hdr),
    FIELD(ss_cuda_call, start_ns),
    FIELD(ss_cuda_call, start_time_ns),
    FIELD(ss_cuda_call, tgid),
    FIELD(ss_cuda_call, tid),
    FIELD(ss_cuda_call, op),
    FIELD(ss_cuda_call, flags),
    FIELD(ss_cuda_call, values),
    FIELD(ss_cuda_turn, hdr),
    FIELD(ss_cuda_turn, start_time_ns),
    FIELD(ss_cuda_turn, tgid),
    FIELD(ss_cuda_turn, tid),
    FIELD(ss_cuda_turn, turn),
    FIELD(ss_cuda_turn, left),
    FIELD(ss_cuda_turn, op),
    FIELD(ss_cuda_turn, missed),
    FIELD(ss_cuda_calls, hdr),
    FIELD(ss_cuda_calls, calls),
    FIELD(ss_cuda_queue, taken),
    FIELD(ss_cuda_queue, nr),
    FIELD(ss_cuda_queue, first_ns),
    FIELD(ss_cuda_queue, batch),
    FIELD(ss_cuda_queue, zero),
    FIELD(ss_cuda_value, from),
    FIELD(ss_cuda_value, index),
    FIELD(ss_cuda_value, offset),
    FIELD(ss_cuda_probe, op),
    FIELD(ss_cuda_probe, flags),
    FIELD(ss_cuda_probe, nr_values),
    FIELD(ss_cuda_probe, results),
    FIELD(ss_cuda_probe, values),
    FIELD(ss_rmid_entry, freed_at_ns),
    FIELD(ss_rmid_entry, rmid),
    FIELD(ss_rmid_entry, zero),
    FIELD(ss_rmid_fifo, last_ns),
    FIELD(ss_rmid_fifo, seq),
    FIELD(ss_rmid_fifo, limbo_ns),
    FIELD(ss_rmid_fifo, head),
    FIELD(ss_rmid_fifo, count),
    FIELD(ss_rmid_fifo, nr_rmids),
    FIELD(ss_rmid_fifo, zero),
    FIELD(ss_rmid_fifo, queue),
    FIELD(ss_rmid_fifo, generation),
    FIELD(ss_rmid_fifo, live),
};

const std::map<std::string, size_t> kSizes = {
    {"ss_hdr", sizeof(ss_hdr)},
    {"ss_counter", sizeof(ss_counter)},
    {"ss_measure", sizeof(ss_measure)},
    {"ss_long_measure", sizeof(ss_long_measure)},
    {"ss_task_meta", sizeof(ss_task_meta)},
    {"ss_rmid_event", sizeof(ss_rmid_event)},
    {"ss_rdt_sample", sizeof(ss_rdt_sample)},
    {"ss_tick", sizeof(ss_tick)},
    {"ss_cpu_state", sizeof(ss_cpu_state)},
    {"ss_cuda_call", sizeof(ss_cuda_call)},
    {"ss_cuda_turn", sizeof(ss_cuda_turn)},
    {"ss_cuda_calls", sizeof(ss_cuda_calls)},
    {"ss_cuda_queue", sizeof(ss_cuda_queue)},
    {"ss_cuda_value", sizeof(ss_cuda_value)},
    {"ss_cuda_probe", sizeof(ss_cuda_probe)},
    {"ss_rmid_entry", sizeof(ss_rmid_entry)},
    {"ss_rmid_fifo", sizeof(ss_rmid_fifo)},
};

struct BtfDeleter {
  void operator()(btf* types) const { btf__free(types); }
};
using Btf = std::unique_ptr<btf, BtfDeleter>;

std::string BuildDir() {
  const char* dir = std::getenv("SLOTSCOPE_BUILD");
  return dir ? dir : "build";
}

// A directory for what the compilers make; it goes with everything in it.
class TempDir {
 public:
  TempDir() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~TempDir() { EXPECT_EQ(std::system(("rm -rf " + path_).c_str()), 0); }
  std::string Path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_ = testing::TempDir() + "slotscope-layout-XXXXXX";
};

bool HasProgram(const char* name) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0;
}

// Runs a shell command. Returns whether it succeeded, with all that it printed in *output.
bool RunShell(const std::string& command, std::string* output) {
  output->clear();
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  if (!pipe) return false;
  char chunk[4096];
  size_t got;
  while ((got = fread(chunk, 1, sizeof(chunk), pipe)) > 0) output->append(chunk, got);
  return pclose(pipe) == 0;
}

// Where the struct `type` of *types differs from `fields`; empty if it does not.
std::vector<std::string> Differences(const btf* types, const std::string& type,
                                     const std::vector<Field>& fields, size_t size) {
  std::vector<std::string> found;
  int id = btf__find_by_name_kind(types, type.c_str(), BTF_KIND_STRUCT);
  if (id < 0) return {type + " is missing"};
  const btf_type* record = btf__type_by_id(types, static_cast<uint32_t>(id));
  if (record->size != size)
    found.push_back(fmt::format("{}: size {}, here {}", type, record->size, size));
  std::map<std::string, Field> expected;
  for (const Field& field : fields)
    if (field.type == type) expected.emplace(field.name, field);
  for (uint32_t i = 0; i < btf_vlen(record); i++) {
    const btf_member& member = btf_members(record)[i];
    std::string name = btf__name_by_offset(types, member.name_off);
    auto field = expected.find(name);
    if (field == expected.end()) {
      found.push_back(fmt::format("{}.{}: not in the list of this test", type, name));
      continue;
    }
    uint32_t bits = btf_member_bit_offset(record, i);
    int64_t bytes = btf__resolve_size(types, member.type);
    if (bits != field->second.offset * 8)
      found.push_back(
          fmt::format("{}.{}: at bit {}, here at byte {}", type, name, bits, field->second.offset));
    if (bytes != static_cast<int64_t>(field->second.size))
      found.push_back(fmt::format("{}.{}: {} bytes, here {}", type, name, bytes, field->second.size));
    expected.erase(field);
  }
  for (const auto& [name, field] : expected)
    found.push_back(fmt::format("{}.{} is missing", type, name));
  return found;
}

std::string Join(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(Layout, CSeesTheSameLayout) {
  if (!HasProgram("gcc")) GTEST_SKIP() << "there is no gcc";
  TempDir dir;
  {
    std::ofstream source(dir.Path("layout.c"));
    source << "#include <stddef.h>\n#include <stdio.h>\n#include <slotscope/cuda_probe.h>\n"
              "#include <slotscope/rmid_fifo.h>\nint main(void) {\n";
    for (const auto& [type, size] : kSizes)
      source << fmt::format("printf(\"{0} %zu\\n\", sizeof(struct {0}));\n", type);
    for (const Field& field : kFields)
      source << fmt::format(
          "printf(\"{0}.{1} %zu %zu\\n\", offsetof(struct {0}, {1}), sizeof(((struct {0} *)0)->{1}));\n",
          field.type, field.name);
    source << "return 0; }\n";
  }
  std::string output;
  ASSERT_TRUE(RunShell(fmt::format("gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude -o {0} {1} && {0}",
                                   dir.Path("layout"), dir.Path("layout.c")),
                       &output))
      << output;
  std::string expected;
  for (const auto& [type, size] : kSizes) expected += fmt::format("{} {}\n", type, size);
  for (const Field& field : kFields)
    expected += fmt::format("{}.{} {} {}\n", field.type, field.name, field.offset, field.size);
  EXPECT_EQ(output, expected);
}

// Programs that only use a message on their stack leave no BTF of it, so this compiles the headers once
// more as the programs do, with every struct as a global.
TEST(Layout, BpfCompilerSeesTheSameLayout) {
  if (!HasProgram("clang")) GTEST_SKIP() << "there is no clang";
  if (!std::ifstream(BuildDir() + "/bpf/vmlinux.h"))
    GTEST_SKIP() << BuildDir() << "/bpf/vmlinux.h is not built (SLOTSCOPE_BUILD names the build folder)";
  TempDir dir;
  {
    std::ofstream source(dir.Path("layout.bpf.c"));
    source << "#include \"vmlinux.h\"\n#include <slotscope/cuda_probe.h>\n#include "
              "<slotscope/rmid_fifo.h>\n";
    for (const auto& [type, size] : kSizes) source << fmt::format("struct {0} a_{0};\n", type);
  }
  std::string output;
  ASSERT_TRUE(RunShell(fmt::format("clang -g -O2 -mcpu=v3 -target bpf -D__TARGET_ARCH_x86 -Wall -Werror "
                                   "-Iinclude -I{}/bpf -c {} -o {}",
                                   BuildDir(), dir.Path("layout.bpf.c"), dir.Path("layout.bpf.o")),
                       &output))
      << output;
  Btf types(btf__parse(dir.Path("layout.bpf.o").c_str(), nullptr));
  ASSERT_TRUE(types);
  for (const auto& [type, size] : kSizes)
    EXPECT_EQ(Join(Differences(types.get(), type, kFields, size)), "");
}

// What is loaded into the kernel, not what could be.
TEST(Layout, BuiltBpfObjectsHaveTheSameLayout) {
  std::set<std::string> seen;
  for (const char* name : {"relay", "native", "cuda"}) {
    std::string path = fmt::format("{}/bpf/{}.bpf.o", BuildDir(), name);
    if (!std::ifstream(path)) GTEST_SKIP() << path << " is not built (SLOTSCOPE_BUILD names the folder)";
    Btf types(btf__parse(path.c_str(), nullptr));
    ASSERT_TRUE(types) << path;
    for (const auto& [type, size] : kSizes) {
      if (btf__find_by_name_kind(types.get(), type.c_str(), BTF_KIND_STRUCT) < 0) continue;
      seen.insert(type);
      EXPECT_EQ(Join(Differences(types.get(), type, kFields, size)), "") << path;
    }
  }
  EXPECT_TRUE(seen.contains("ss_rmid_fifo")) << "the module-less source holds one in a map";
}

TEST(Layout, EveryByteOfAMessageIsInAField) {
  for (const auto& [type, size] : kSizes) {
    size_t at = 0;
    for (const Field& field : kFields) {
      if (type != field.type) continue;
      EXPECT_EQ(field.offset, at) << "hidden padding before " << type << "." << field.name;
      at = field.offset + field.size;
    }
    EXPECT_EQ(at, size) << type;
  }
}

// The comparison itself must be able to say no.
TEST(Layout, ComparisonNoticesEachKindOfDifference) {
  Btf types(btf__new_empty());
  ASSERT_TRUE(types);
  int u64 = btf__add_int(types.get(), "u64", 8, 0);
  int u32 = btf__add_int(types.get(), "u32", 4, 0);
  btf__add_struct(types.get(), "pair", 16);
  btf__add_field(types.get(), "first", u64, 0, 0);
  btf__add_field(types.get(), "second", u32, 64, 0);
  const struct {
    std::vector<Field> fields;
    size_t size;
    size_t nr_differences;
  } cases[] = {
      {{{"pair", "first", 0, 8}, {"pair", "second", 8, 4}}, 16, 0},
      {{{"pair", "first", 0, 8}, {"pair", "second", 12, 4}}, 16, 1},
      {{{"pair", "first", 0, 8}, {"pair", "second", 8, 8}}, 16, 1},
      {{{"pair", "first", 0, 8}, {"pair", "second", 8, 4}}, 24, 1},
      {{{"pair", "first", 0, 8}}, 16, 1},
      {{{"pair", "first", 0, 8}, {"pair", "second", 8, 4}, {"pair", "third", 12, 4}}, 16, 1},
  };
  for (const auto& c : cases)
    EXPECT_EQ(Differences(types.get(), "pair", c.fields, c.size).size(), c.nr_differences);
  EXPECT_EQ(Differences(types.get(), "triple", {}, 16).size(), 1u);
}

}  // namespace
