// A plugin of qemu-x86_64 that writes every fetch and access of a program to its standard output, in
// order: eight bytes each, an address with what it is in the two highest bits.
#include <stdint.h>
#include <stdio.h>

#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static const uint64_t FETCH = 0, LOAD = UINT64_C(1) << 62, STORE = UINT64_C(2) << 62;

static void tell(uint64_t what) { fwrite(&what, sizeof what, 1, stdout); }

static void on_fetch(unsigned cpu, void *address) {
    (void)cpu;
    tell(FETCH | (uintptr_t)address);
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    (void)cpu, (void)data;
    tell((qemu_plugin_mem_is_store(info) ? STORE : LOAD) | address);
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
        void *address = (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fetch, QEMU_PLUGIN_CB_NO_REGS, address);
    }
}

static void on_exit(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    fflush(stdout);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    static char buffer[1 << 20];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_atexit_cb(id, on_exit, NULL);
    return 0;
}
