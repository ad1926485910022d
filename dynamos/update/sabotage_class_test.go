// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"io"
	"os"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/source"
)

// harmful are changes of one function of the kernel each that two versions at a time must not
// differ in; refused has a part of the reason, or is empty for class any.
var harmful = []spoilt{
	{"a lock made conditional", "fs/eventfd.c", "\tspin_lock_irqsave(&ctx->wqh.lock, flags);\n\tcurrent->in_eventfd = 1;",
		"\tif (n > 1)\n\t\tspin_lock_irqsave(&ctx->wqh.lock, flags);\n\telse\n\t\tflags = 0;\n\tcurrent->in_eventfd = 1;",
		"_raw_spin_unlock_irqrestore(argument 0+8, ?) may now come right after the function's start"},
	{"a write after the unlock", "fs/fs_struct.c", "\tfs->pwd = *path;\n\twrite_seqcount_end(&fs->seq);\n\tspin_unlock(&fs->lock);",
		"\twrite_seqcount_end(&fs->seq);\n\tspin_unlock(&fs->lock);\n\tfs->pwd = *path;",
		"set_fs_pwd: the write to argument 0+40 may now come after _raw_spin_unlock(argument 0+4)"},
	{"two locks in the opposite order", "fs/pipe.c", "\t\tpipe_lock_nested(pipe1, I_MUTEX_PARENT);\n\t\tpipe_lock_nested(pipe2, I_MUTEX_CHILD);",
		"\t\tpipe_lock_nested(pipe2, I_MUTEX_PARENT);\n\t\tpipe_lock_nested(pipe1, I_MUTEX_CHILD);", "pipe_double_lock: mutex_lock("},
	{"locks in the opposite order of their addresses", "fs/inode.c", "\tif (inode1 > inode2)\n\t\tswap(inode1, inode2);\n\n\tif (inode1 && !S_ISDIR(inode1->i_mode))\n\t\tinode_lock(inode1);",
		"\tif (inode1 < inode2)\n\t\tswap(inode1, inode2);\n\n\tif (inode1 && !S_ISDIR(inode1->i_mode))\n\t\tinode_lock(inode1);", "lock_two_nondirectories: down_write("},
	{"no unlock on the way of an error", "block/blk-ioc.c", "\t\t\tkmem_cache_free(iocontext_cachep, ioc);\n\t\t\tgoto out;", "\t\t\tkmem_cache_free(iocontext_cachep, ioc);\n\t\t\treturn 0;",
		"set_task_ioprio: its return may now come right after kmem_cache_free("},
	{"an allocation that may not sleep", "kernel/user.c", "kmem_cache_zalloc(uid_cachep, GFP_KERNEL);", "kmem_cache_zalloc(uid_cachep, GFP_ATOMIC);", "alloc_uid: kmem_cache_alloc("},
	{"a reference given back too early", "fs/proc/base.c", "\t\tmmput(mm);\n\t\tret = simple_read_from_buffer(buf, count, ppos, buffer, len);\n\t}\n\n\tput_task_struct(task);",
		"\t\tput_task_struct(task);\n\t\tmmput(mm);\n\t\tret = simple_read_from_buffer(buf, count, ppos, buffer, len);\n\t}\n", "proc_coredump_filter_read: mmput("},
	{"a reference given back in the opposite case", "kernel/time/posix-cpu-timers.c", "\tif (!ret)\n\t\tput_pid(ctmr->pid);", "\tif (ret)\n\t\tput_pid(ctmr->pid);",
		"posix_cpu_timer_del: put_pid("},
	{"the opposite of a count's result", "security/keys/key.c", "\t\tif (refcount_dec_and_test(&key->usage))\n\t\t\tschedule_work(", "\t\tif (!refcount_dec_and_test(&key->usage))\n\t\t\tschedule_work(",
		"now comes under the opposite condition"},
	{"a release in the opposite case", "ipc/shm.c", "\tret = call_mmap(sfd->file, vma);\n\tif (ret) {", "\tret = call_mmap(sfd->file, vma);\n\tif (!ret) {", "shm_mmap: __shm_close("},
	{"another limit of a check", "net/core/dev.c", "\tif (len >= IFALIASZ)", "\tif (len > IFALIASZ)", ""},
	{"a check more", "net/ipv4/arp.c", "sizeof(struct arpreq));\n\t\tif (err)\n\t\t\treturn -EFAULT;\n", "sizeof(struct arpreq));\n\t\tif (err)\n\t\t\treturn -EFAULT;\n\t\tif (r.arp_flags & 0x8000)\n\t\t\treturn -EINVAL;\n", ""},
}

// The class of changes of the kernel's own code, which differs from that of a test: counts are
// written by hand, and functions end in calls that do not return.
func TestSabotagedClasses(t *testing.T) {
	b := &builder{plan: &Plan{Says: io.Discard}}
	if err := b.fetchTree(t.Context(), sabotageKernel(t)); err != nil {
		t.Fatal(err)
	}
	byPath := assembleSpoilt(t, b.tree, harmful...)
	known := callees{b.image, &image.Declared{}}
	for _, s := range harmful {
		t.Run(s.what, func(t *testing.T) {
			c := compareSpoilt(t, byPath[s.path])
			c.Arguments = known.arguments
			class, why := asm.ProposeClass([]*asm.Change{c})
			if want := map[bool]asm.Class{true: asm.Any, false: asm.Together}[s.refused == ""]; class != want || !strings.Contains(strings.Join(why, "; "), s.refused) {
				t.Errorf("class %s of %v, %q, want %q", class, c.Changed, why, s.refused)
			}
		})
	}
}

// compareSpoilt compares a file as it was compiled before and after.
func compareSpoilt(t *testing.T, u source.Unit) *asm.Change {
	t.Helper()
	var units [2]*asm.Unit
	for i, file := range []string{u.Before, u.After} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if units[i], err = asm.Parse(u.Path, text); err != nil {
			t.Fatal(err)
		}
	}
	c, err := asm.Compare(units[0], units[1])
	if err != nil {
		t.Fatal(err)
	}
	return c
}
