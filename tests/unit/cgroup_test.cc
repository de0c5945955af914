// SPDX-License-Identifier: MIT
#include "track/cgroup.h"

#include <gtest/gtest.h>

#include <string>

#include "track/group_filter.h"

namespace slotscope {
namespace {

const std::string kId = "3f29ba1a6d0e64e0a4f21d5b5f0c2a77c9f1f0d6c1a8b43e5d7e9c0b1a2f3e4d";
const std::string kOther = "b5a1c7e2d9f04836a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718";
const std::string kUid = "0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60";
const std::string kUnderscored = "0f4a2c1e_8d3b_4c55_9a70_1b2c3d4e5f60";
const std::string kHash = "6db2a3c9e1f04b7a8c5d2e9f0a1b3c4d";  // of a pod from the kubelet's own files

TEST(Cgroup, PathsOfRealMachinesAreUnderstood) {
  const std::string kubepods = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod";
  const struct {
    std::string what, path, container_id, pod_uid, unit;
  } cases[] = {
      {"the root", "/", "", "", ""},
      {"a service", "/system.slice/cron.service", "", "", "cron.service"},
      {"below it", "/system.slice/docker.service/init", "", "", "docker.service"},
      {"an instance", "/system.slice/system-getty.slice/getty@tty1.service", "", "",
       "getty@tty1.service"},
      {"a login", "/user.slice/user-1000.slice/session-3.scope", "", "", "session-3.scope"},
      {"a user's service", "/user.slice/user-1000.slice/user@1000.service/app.slice/code.service", "",
       "", "user@1000.service"},
      {"of systemd itself", "/init.scope", "", "", "init.scope"},
      {"a name that the kernel has, too", "/system.slice/_cgroup.service", "", "", "cgroup.service"},
      {"a slice alone", "/system.slice", "", "", ""},
      {"docker, cgroupfs", "/docker/" + kId, kId, "", ""},
      {"docker, systemd", "/system.slice/docker-" + kId + ".scope", kId, "", "docker-" + kId + ".scope"},
      {"docker in docker", "/docker/" + kOther + "/docker/" + kId, kId, "", ""},
      {"kubernetes, cgroupfs", "/kubepods/besteffort/pod" + kUid + "/" + kId, kId, kUid, ""},
      {"guaranteed, cgroupfs", "/kubepods/pod" + kUid + "/" + kId, kId, kUid, ""},
      {"containerd, systemd", kubepods + kUnderscored + ".slice/cri-containerd-" + kId + ".scope", kId,
       kUid, "cri-containerd-" + kId + ".scope"},
      {"guaranteed, systemd",
       "/kubepods.slice/kubepods-pod" + kUnderscored + ".slice/cri-containerd-" + kId + ".scope", kId,
       kUid, "cri-containerd-" + kId + ".scope"},
      {"CRI-O", kubepods + kUnderscored + ".slice/crio-" + kId + ".scope", kId, kUid,
       "crio-" + kId + ".scope"},
      {"CRI-O, a level below", kubepods + kUnderscored + ".slice/crio-" + kId + ".scope/container", kId,
       kUid, "crio-" + kId + ".scope"},
      {"CRI-O's monitor", kubepods + kUnderscored + ".slice/crio-conmon-" + kId + ".scope", "", kUid,
       "crio-conmon-" + kId + ".scope"},
      {"docker under kubernetes", kubepods + kUnderscored + ".slice/docker-" + kId + ".scope", kId, kUid,
       "docker-" + kId + ".scope"},
      {"a pod of the kubelet's own files", "/kubepods/burstable/pod" + kHash + "/" + kId, kId, kHash,
       ""},
      {"the same, systemd", kubepods + kHash + ".slice/cri-containerd-" + kId + ".scope", kId, kHash,
       "cri-containerd-" + kId + ".scope"},
      {"the pod, and no container of it", kubepods + kUnderscored + ".slice", "", kUid, ""},
      {"kind: kubernetes in docker",
       "/docker/" + kOther + "/kubelet/kubepods/burstable/pod" + kUid + "/" + kId, kId, kUid, ""},
      {"kind, systemd",
       "/system.slice/docker-" + kOther +
           ".scope/kubelet.slice/kubelet-kubepods.slice/"
           "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" +
           kUnderscored + ".slice/cri-containerd-" + kId + ".scope",
       kId, kUid, "docker-" + kOther + ".scope"},
      {"containerd that takes systemd's names for a path",
       "/system.slice/containerd.service/kubepods-burstable-pod" + kUnderscored +
           ".slice:cri-containerd:" + kId,
       kId, kUid, "containerd.service"},
      {"podman, root", "/machine.slice/libpod-" + kId + ".scope/container", kId, "",
       "libpod-" + kId + ".scope"},
      {"podman's monitor", "/machine.slice/libpod-conmon-" + kId + ".scope", "", "",
       "libpod-conmon-" + kId + ".scope"},
      {"podman, a user's",
       "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope", kId, "",
       "user@1000.service"},
      {"podman, cgroupfs", "/libpod_parent/libpod-" + kId, kId, "", ""},
      {"ECS", "/ecs/prod/8f2d0c/" + kId, kId, "", ""},
      {"LXC", "/lxc.payload.web1/system.slice/nginx.service", "web1", "", ""},
      {"LXC, older", "/lxc/web1/init.scope", "web1", "", ""},
      {"no id: a digit is missing", "/docker/" + kId.substr(1), "", "", ""},
      {"no id: a letter is none", "/docker/x" + kId.substr(1), "", "", ""},
      {"no pod: a dash is missing", "/kubepods/pod" + kUid.substr(1) + "0", "", "", ""},
      {"no pod: the name ends so", "/system.slice/tripod" + kUid + ".slice", "", "", ""},
      {"nothing", "", "", "", ""},
      {"slashes", "///", "", "", ""},
      {"no text", std::string("/a\0b/\xff", 6), "", "", ""},
  };
  for (const auto& c : cases) {
    const Cgroup cgroup = ParseCgroup(c.path);
    EXPECT_EQ(cgroup.path, c.path) << c.what;
    EXPECT_EQ(cgroup.container_id, c.container_id) << c.what;
    EXPECT_EQ(cgroup.pod_uid, c.pod_uid) << c.what;
    EXPECT_EQ(cgroup.unit, c.unit) << c.what;
    EXPECT_EQ(cgroup.pod, "") << c.what;
  }
}

TEST(GroupFilter, TakesWhatPeopleCallThem) {
  Cgroup pod = ParseCgroup("/kubepods/burstable/pod" + kUid + "/" + kId);
  pod.pod = "ml/train-0";
  const Cgroup service = ParseCgroup("/system.slice/cron.service");
  const struct {
    GroupFilter filter;  // cgroups, pods, units
    bool has_pod, has_service;
  } cases[] = {
      {{{}, {}, {}}, false, false},
      {{{"/kubepods"}, {}, {}}, true, false},
      {{{"kubepods/burstable/"}, {}, {}}, true, false},
      {{{"/sys/fs/cgroup/system.slice"}, {}, {}}, false, true},
      {{{"/kube"}, {}, {}}, false, false},
      {{{"/"}, {}, {}}, true, true},
      {{{kId}, {}, {}}, true, false},
      {{{kId.substr(0, 12)}, {}, {}}, true, false},
      {{{kId.substr(0, 11)}, {}, {}}, false, false},
      {{{}, {kUid}, {}}, true, false},
      {{{}, {kUid.substr(0, 8)}, {}}, true, false},
      {{{}, {kUid.substr(0, 7)}, {}}, false, false},
      {{{}, {"train-0"}, {}}, true, false},
      {{{}, {"ml/train-0"}, {}}, true, false},
      {{{}, {"db/train-0"}, {}}, false, false},
      {{{}, {"train"}, {}}, false, false},
      {{{}, {""}, {""}}, false, false},
      {{{}, {}, {"cron"}}, false, true},
      {{{}, {}, {"cron.service"}}, false, true},
      {{{}, {}, {"cro"}}, false, false},
      {{{}, {"train-0"}, {"cron"}}, true, true},
  };
  for (size_t i = 0; i < std::size(cases); i++) {
    EXPECT_EQ(cases[i].filter.Matches(pod), cases[i].has_pod) << i;
    EXPECT_EQ(cases[i].filter.Matches(service), cases[i].has_service) << i;
  }
  EXPECT_FALSE(GroupFilter().any());
}

}  // namespace
}  // namespace slotscope
